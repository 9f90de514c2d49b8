"""`backfill` by hand, and by the tasks that run in the background."""

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from click.testing import CliRunner
from django.core.management import CommandError, call_command
from django.utils import timezone

from diagnostics import cli, pipeline, tasks
from diagnostics.clusters import DeclaredCluster, DeclaredPrometheus
from diagnostics.models import Backfill, Cluster, Workload
from tests.backfill.past import polled, sums
from tests.fakes.history import Kept, board, busy, held, served
from tests.fakes.web import Reply

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
NOW = timezone.now().replace(minute=0, second=0, microsecond=0)
START, END = NOW - 6 * HOUR, NOW - 2 * HOUR


@pytest.fixture
def kept(settings: Any) -> Iterator[Kept]:
    found = Kept(busy(held(board("a"), "nb-0"), START - HOUR, NOW + HOUR))
    with served(found) as prometheus:
        settings.CLUSTERS = {"lab": DeclaredCluster(prometheus=DeclaredPrometheus(url=prometheus.url))}
        yield found


@pytest.fixture
def cluster(kept: Kept) -> Cluster:
    return polled("lab", NOW)


def said(*arguments: str) -> str:
    out = StringIO()
    call_command("backfill", *arguments, stdout=out)
    return out.getvalue()


def test_fills_a_span_and_prints_how_far_it_is(cluster: Cluster) -> None:
    lines = said(f"--from={START.isoformat()}", f"--to={END.isoformat()}", "--cluster=lab").splitlines()
    assert lines[0].startswith("lab: ")
    assert ": 100%" in lines[-1]
    assert sums(cluster, START, END) == {("team-red", "effective"): 4 * 3_600_000}


def test_without_a_span_it_fills_what_waits(cluster: Cluster) -> None:
    assert said() == "nothing waits to be filled\n"
    Backfill.objects.create(cluster=cluster, start=START, end=END, done_from=END)
    assert "100%" in said()
    assert Backfill.objects.get().status == Backfill.Status.DONE


def test_says_what_failed(cluster: Cluster, kept: Kept) -> None:
    kept.special = lambda asked: Reply(status=503)
    with pytest.raises(CommandError, match="is not ready, or overloaded"):
        said(f"--from={START.isoformat()}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from=yesterday"], "'yesterday' is no time such as"),
        (["--from=2026-02-31"], "'2026-02-31' is no time such as"),
        (["--to=2026-02-01"], "--to needs --from"),
        (["--cluster=gone"], "no cluster 'gone' has been polled"),
        (["--from=2199-01-01"], "up to which can be judged"),
    ],
)
def test_refuses_what_it_cannot_understand(cluster: Cluster, arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        said(*arguments)


def test_the_program_hands_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[tuple[str, ...]] = []
    monkeypatch.setattr(cli, "_django", lambda *arguments: handed.append(arguments))
    result = CliRunner().invoke(cli.main, ["backfill", "--cluster", "lab", "--from", "2026-06-01"])
    assert result.exit_code == 0
    assert handed == [("backfill", "--cluster=lab", "--from=2026-06-01")]


def test_a_task_fills_what_is_due_and_asks_for_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(tasks.backfill, "apply_async", lambda args, expires: sent.append(args))
    for end in (END, END - HOUR):
        Backfill.objects.create(cluster=cluster, start=end - HOUR, end=end, done_from=end)
    tasks.fill_later("lab")
    tasks.backfill("lab")
    assert sent == [("lab",), ("lab",)]
    tasks.backfill("lab")
    tasks.backfill("unknown")
    assert len(sent) == 2
    assert {row.status for row in Backfill.objects.all()} == {Backfill.Status.DONE}


def test_the_month_before_the_first_poll_is_asked_for_with_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(tasks.backfill, "apply_async", lambda args, expires: sent.append(args))
    monkeypatch.setattr(pipeline, "observe", lambda slug: None)
    Cluster.objects.update(last_taken_at=None)
    tasks.observe("lab")
    assert sent == [("lab",)]
    assert min(row.start for row in Backfill.objects.all()) <= NOW - timedelta(days=29)
    Cluster.objects.update(last_taken_at=NOW)
    Backfill.objects.all().delete()
    tasks.observe("lab")
    assert not Backfill.objects.exists()


def test_the_timer_looks_for_what_was_left(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(tasks.backfill, "apply_async", lambda args, expires: sent.append(args))
    Workload.objects.update(first_seen=NOW - timedelta(days=40))
    tasks.backfill_all()
    assert sent == []
    Backfill.objects.create(cluster=cluster, start=START, end=END, done_from=END, attempts=1)
    Backfill.objects.update(updated_at=timezone.now() - HOUR)
    tasks.backfill_all()
    assert sent == [("lab",)]
