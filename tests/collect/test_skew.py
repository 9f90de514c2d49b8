"""Whose clock a snapshot goes by."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from diagnostics.collect import Target, take_snapshot
from tests.fakes.replay import replaying


@pytest.mark.parametrize(
    ("ours_is_off_by", "by_the_servers"),
    [
        (timedelta(seconds=2), False),
        (timedelta(hours=1), True),
        (timedelta(hours=-1), True),
        (timedelta(days=365 * 70), False),
        (timedelta(days=-365 * 50), False),
    ],
    ids=str,
)
def test_a_server_is_believed_within_reason(
    tmp_path: Path, ours_is_off_by: timedelta, by_the_servers: bool
) -> None:
    """A Date header that is years away is broken: going by it would make every pod decades old."""
    now = datetime.now(UTC)
    with replaying("healthy") as replay:
        target = Target(name="lab", kubeconfig=replay.kubeconfig(tmp_path / "kubeconfig"))
        taken = take_snapshot(target, clock=lambda: now + ours_is_off_by)
    off = abs(taken.snapshot.taken_at - (now if by_the_servers else now + ours_is_off_by))
    assert off < timedelta(seconds=10)
    assert (taken.snapshot.clock_skew is not None) is by_the_servers
