"""A span filled from a made-up Prometheus: what lands in the ledger, and what is said when it cannot be filled."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from diagnostics import backfill
from diagnostics.backfill import filling, opening
from diagnostics.backfill.rebuilding import rebuilt
from diagnostics.clusters import DeclaredCluster, DeclaredPrometheus
from diagnostics.models import Allocation, Backfill, Cluster, Device, Node, StateInterval, Workload
from diagnostics.usage.moments import to_ms
from tests.backfill.past import polled, stays, sums
from tests.fakes.history import Kept, board, busy, held, served
from tests.fakes.web import Asked, Reply

pytestmark = pytest.mark.django_db

END = datetime(2026, 6, 20, 12, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
START = END - 6 * HOUR
SLOT = "gpu-1/00000000:10:00.0"
Status = Backfill.Status


@pytest.fixture
def kept(settings: Any) -> Iterator[Kept]:
    """What Prometheus holds; the cluster `lab` is declared with it."""
    found = Kept()
    with served(found) as prometheus:
        settings.CLUSTERS = {"lab": DeclaredCluster(prometheus=DeclaredPrometheus(url=prometheus.url))}
        yield found


@pytest.fixture
def cluster() -> Cluster:
    return polled("lab", END)


def fill(cluster: Cluster, start: datetime = START, end: datetime = END, **options: Any) -> Backfill:
    row = Backfill.objects.create(cluster=cluster, start=start, end=end, done_from=end)
    return backfill.run(cluster, row, lambda: END + HOUR, **options)


def hours(cluster: Cluster) -> dict[tuple[str, str], float]:
    """(namespace, state) -> GPU-hours."""
    return {key: ms / 3.6e6 for key, ms in sums(cluster, START, END).items()}


def test_time_before_the_first_poll_is_filled(kept: Kept, cluster: Cluster) -> None:
    half = START + 3 * HOUR
    kept.lines += busy(held(board("a"), "web-7d9c8b6f5c-x2x4q"), START - HOUR, END + HOUR)
    kept.lines += busy(held(board("b"), "nb-0", "team-blue"), START - HOUR, END + HOUR, sm=0.0)
    kept.lines += busy(board("c"), half, END + HOUR)
    row = fill(cluster)
    assert (row.status, row.done_from) == (Status.DONE, START)
    assert row.detail == "without kube-state-metrics: holders by the labels of GPU metrics alone"
    assert hours(cluster) == {
        ("team-red", "effective"): 6.0,
        ("team-blue", "idle_held"): 6.0,
        ("", "free"): 3.0,
    }
    assert Device.objects.get(slot=SLOT).first_seen == START
    assert Device.objects.get(slot="gpu-1/00000000:12:00.0").first_seen == half
    assert Node.objects.get(name="gpu-1").first_seen == START
    web = Workload.objects.get(kind="Deployment")
    assert (web.name, web.first_seen) == ("web", START)
    allocation = Allocation.objects.get(workload=web)
    assert (allocation.started_at, allocation.ended_at) == (START, END)
    assert StateInterval.objects.filter(is_backfilled=False).count() == 0


def test_chunks_of_any_length_come_to_the_same(
    kept: Kept, cluster: Cluster, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = held(board("a"), "nb-0")
    for number, (begin, end) in enumerate([(-60, 50), (57, 118), (120, 170), (200, 420)]):
        start, stop = START + begin * MINUTE, START + (end - 1) * MINUTE
        kept.lines += busy(labels, start, stop, sm=0.0 if number % 2 else 0.7)
    whole = polled("whole", END)
    settings.CLUSTERS["whole"] = settings.CLUSTERS["lab"]
    fill(whole)
    monkeypatch.setattr(filling, "LONGEST", HOUR)
    fill(cluster)
    assert stays(cluster) == stays(whole)
    assert {state for _, state in hours(cluster)} >= {"effective", "idle_held", "gap"}


def test_a_device_that_was_away_between_two_chunks_was_unobserved_there(
    kept: Kept, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "LONGEST", HOUR)
    kept.lines += busy(board("b"), START - HOUR, END + HOUR)
    kept.lines += busy(board("a"), START - HOUR, START + HOUR + 29 * MINUTE)
    kept.lines += busy(board("a"), START + 5 * HOUR, END + HOUR)
    fill(cluster)
    rows = StateInterval.objects.filter(device__slot=SLOT).order_by("start_ms")
    assert sum(row.end_ms - row.start_ms for row in rows) == 6 * 3_600_000
    assert sum(row.end_ms - row.start_ms for row in rows if row.is_gap) > 3 * 3_600_000


def test_a_span_is_filled_once(kept: Kept, cluster: Cluster) -> None:
    kept.lines += busy(held(board("a"), "nb-0"), START - HOUR, END + HOUR)
    fill(cluster)
    before = stays(cluster)
    fill(cluster)
    fill(cluster, START + HOUR, END - HOUR)
    assert stays(cluster) == before
    assert hours(cluster) == {("team-red", "effective"): 6.0}
    assert Allocation.objects.count() == 1


def test_progress_is_kept_when_it_is_stopped(
    kept: Kept, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "LONGEST", HOUR)
    kept.lines += busy(held(board("a"), "nb-0"), START - HOUR, END + HOUR)
    told: list[datetime] = []
    row = fill(cluster, stop=lambda: len(told) == 2, told=lambda row: told.append(row.done_from))
    assert (row.status, row.done_from) == (Status.WAITING, END - 2 * HOUR)
    assert told == [END - HOUR, END - 2 * HOUR]
    assert hours(cluster) == {("team-red", "effective"): 2.0}


def test_of_two_runs_only_one_keeps_a_chunk(
    kept: Kept, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.lines += busy(held(board("a"), "nb-0"), START - HOUR, END + HOUR)

    def overtaken(*args: Any, **options: Any) -> Any:
        Backfill.objects.update(done_from=END - 5 * MINUTE)
        return rebuilt(*args, **options)

    monkeypatch.setattr(filling, "rebuilt", overtaken)
    row = fill(cluster)
    assert row.done_from == END - 5 * MINUTE
    assert stays(cluster) == []


def test_says_that_prometheus_holds_nothing(kept: Kept, cluster: Cluster) -> None:
    row = fill(cluster)
    assert row.status == Status.IMPOSSIBLE
    assert row.detail.endswith("holds no GPU metrics before 2026-06-20 12:00 UTC")


def test_a_retention_shorter_than_the_span_is_a_row_of_its_own(kept: Kept, cluster: Cluster) -> None:
    kept.lines += busy(held(board("a"), "nb-0"), END - 3 * HOUR, END + HOUR)
    row = fill(cluster, END - 40 * HOUR)
    rest = Backfill.objects.get(status=Status.IMPOSSIBLE)
    assert row.status == Status.DONE
    assert (rest.start, rest.end) == (END - 40 * HOUR, row.start)
    assert END - 16 * HOUR < row.start <= END - 3 * HOUR
    assert "holds no GPU metrics before" in rest.detail
    assert hours(cluster) == {("team-red", "effective"): 3.0}


def test_a_hole_in_the_metrics_is_passed_over(kept: Kept, cluster: Cluster) -> None:
    early, late = (END - 70 * HOUR, END - 60 * HOUR), (END - 2 * HOUR, END + HOUR)
    for start, end in (early, late):
        kept.lines += busy(held(board("a"), "nb-0"), start, end)
    assert fill(cluster, END - 72 * HOUR).status == Status.DONE
    found = sums(cluster, END - 72 * HOUR, END)
    assert found["team-red", "effective"] / 3.6e6 == pytest.approx(12, abs=0.2)
    assert found["", "gap"] / 3.6e6 == pytest.approx(58, abs=0.2)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(status=503), "is not ready, or overloaded"),
        (Reply(status=401), "does not accept our credentials (401)"),
        (Reply(b"{}", content_type="application/json"), "reports an error: without a reason"),
    ],
)
def test_failures_are_worded_and_tried_again(kept: Kept, cluster: Cluster, reply: Reply, words: str) -> None:
    kept.special = lambda asked: reply
    row = fill(cluster)
    assert (row.status, row.attempts) == (Status.WAITING, 1)
    assert words in row.detail
    assert "Prometheus at http://127.0.0.1" in row.detail


def test_gives_up_after_about_a_day_of_failures(kept: Kept, cluster: Cluster) -> None:
    kept.special = lambda asked: Reply(status=503)
    row = Backfill.objects.create(
        cluster=cluster, start=START, end=END, done_from=END, attempts=opening.MOST_ATTEMPTS - 1
    )
    row = backfill.run(cluster, row, lambda: END + HOUR)
    assert row.status == Status.FAILED
    assert backfill.run(cluster, row, lambda: END + HOUR).attempts == opening.MOST_ATTEMPTS


def test_asks_for_less_where_a_chunk_is_too_much(kept: Kept, cluster: Cluster) -> None:
    kept.lines += busy(held(board("a"), "nb-0"), START - HOUR, END + HOUR)

    def refuses_long_spans(asked: Asked) -> Reply | None:
        long = float(asked.query.get("end", 0)) - float(asked.query.get("start", 0)) > 3 * 3600
        if not long or asked.query["query"].startswith("max("):
            return None
        error = "query processing would load too many samples into memory"
        return Reply(json.dumps({"status": "error", "error": error}).encode(), status=422)

    kept.special = refuses_long_spans
    assert fill(cluster).status == Status.DONE
    assert hours(cluster) == {("team-red", "effective"): 6.0}


def test_waits_for_the_first_poll(kept: Kept) -> None:
    kept.lines += busy(board("a"), START, END)
    new = Cluster.objects.create(slug="lab", name="lab")
    row = fill(new)
    assert row.status == Status.WAITING
    assert "has not been polled yet" in row.detail
    assert not Device.objects.exists()


def test_a_cluster_that_lost_its_prometheus_says_so(kept: Kept, cluster: Cluster, settings: Any) -> None:
    settings.CLUSTERS = {"lab": DeclaredCluster()}
    row = fill(cluster)
    assert (row.status, row.detail) == (Status.FAILED, "no Prometheus is configured for this cluster")


def test_our_own_errors_are_kept_and_not_fatal(
    kept: Kept, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.lines += busy(board("a"), START, END)
    monkeypatch.setattr(filling, "rebuilt", lambda *args, **options: 1 / 0)
    row = fill(cluster)
    assert row.status == Status.WAITING
    assert row.detail == "ZeroDivisionError: division by zero (1 attempt)"


def test_names_that_no_column_takes_are_left_out(kept: Kept, cluster: Cluster) -> None:
    kept.lines += busy(board("a", "n" * 300), START - HOUR, END + HOUR)
    kept.lines += busy(held(board("b"), "p" * 300, "t" * 300), START - HOUR, END + HOUR)
    kept.lines += busy(board("c", "") | {"instance": "10.0.0.3:9400"}, START, END)
    for _ in range(2):
        row = fill(cluster)
        assert row.status == Status.DONE
        assert "left out: nothing says on which node the device is (" in row.detail
    assert [device.slot for device in Device.objects.all()] == ["gpu-1/00000000:11:00.0"]
    assert Workload.objects.get(kind="Pod").name == "p" * 253


def test_what_polls_recorded_stays(kept: Kept, cluster: Cluster) -> None:
    """A live stay of another state is not replaced, however sure Prometheus is."""
    kept.lines += busy(held(board("a"), "nb-0"), START - HOUR, END + HOUR)
    node = Node.objects.create(cluster=cluster, name="gpu-1", first_seen=START, last_seen=END)
    device = Device.objects.create(
        cluster=cluster, node=node, slot=SLOT, resource="nvidia.com/gpu", first_seen=START, last_seen=END
    )
    seen = (to_ms(START + HOUR), to_ms(START + 2 * HOUR))
    StateInterval.objects.create(cluster=cluster, device=device, start_ms=seen[0], end_ms=seen[1], state=2)
    fill(cluster)
    rows = StateInterval.objects.filter(device=device).order_by("start_ms")
    assert [(row.start_ms, row.end_ms, row.is_backfilled) for row in rows] == [
        (to_ms(START), seen[0], True),
        (*seen, False),
        (seen[1], to_ms(END), True),
    ]
