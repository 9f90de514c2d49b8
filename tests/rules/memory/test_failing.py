"""Which containers count as failing: the pause between two crashes is no recovery."""

from datetime import timedelta

import pytest

from diagnostics.limits import Limits
from diagnostics.rules.memory.failing import failures
from tests.builders import NOW, ago, container, node, pod, snapshot
from tests.rules.memory.failing_pods import ended


@pytest.mark.parametrize(
    ("restarts", "minutes", "recovered"),
    [(1, 1, True), (9, 1, False), (9, 9, False), (9, 11, True)],
)
def test_a_crash_loop_has_recovered_when_the_kubelet_forgets_its_back_off(
    restarts: int, minutes: int, recovered: bool
) -> None:
    running = container(
        restarts=restarts, running_since=NOW - timedelta(minutes=minutes), last_terminated=ended()
    )
    (failure,) = failures(snapshot(node(), pod(containers=(running,))), Limits())
    assert failure.runs_again is recovered


@pytest.mark.parametrize(("minutes", "recovered"), [(11, False), (40, False), (50, True)])
def test_a_run_no_longer_than_the_one_that_was_killed_is_no_recovery(minutes: int, recovered: bool) -> None:
    last = ended("OOMKilled", 137, started_at=ago(minutes=90), finished_at=ago(minutes=59))
    running = container(restarts=9, running_since=ago(minutes=minutes), last_terminated=last)
    (failure,) = failures(snapshot(node(), pod(containers=(running,))), Limits())
    assert failure.runs_again is recovered
    assert failure.is_loop is not recovered
