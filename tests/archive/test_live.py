"""What is kept of the last hours, and how Prometheus is asked about them."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from diagnostics import tasks
from diagnostics.archive import live_reading
from diagnostics.archive.live import Answer, Measured, answer_to, keep
from diagnostics.clusters import DeclaredCluster, DeclaredPrometheus
from diagnostics.models import Cluster, LiveRange
from tests.builders import NOW
from tests.fakes.web import Asked, Reply, Web, web
from tests.pages.history import device_row, node_row

pytestmark = pytest.mark.django_db

SLOT, OTHER = "gpu-1/00000000:10:00.0", "gpu-1/00000000:11:00.0"
AT = int(NOW.timestamp())
POWER = {"__name__": "DCGM_FI_DEV_POWER_USAGE", "UUID": "GPU-a"}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(slug="lab", name="lab")


@pytest.fixture
def board(cluster: Cluster) -> None:
    device_row(node_row(cluster), uuid="GPU-a")


class Prometheus:
    """What the fake one answers, and what it was asked."""

    def __init__(self) -> None:
        self.series: list[dict[str, Any]] = [{"metric": POWER, "values": [[AT, "300"]]}]
        self.status = 200
        self.web: Web

    def reply(self, _: Asked) -> Reply:
        body = {"status": "success", "data": {"resultType": "matrix", "result": self.series}}
        return Reply(json.dumps(body).encode(), status=self.status, content_type="application/json")


@pytest.fixture
def prometheus(settings: Any) -> Iterator[Prometheus]:
    fake = Prometheus()
    with web(fake.reply) as served:
        fake.web = served
        settings.CLUSTERS = {"lab": DeclaredCluster(prometheus=DeclaredPrometheus(url=served.url))}
        yield fake


def measured(**lines: Any) -> Measured:
    return Measured(AT - 60, 30, 3, lines or {SLOT: {"power_w": [1.0, None, 2.0]}})


def ask(cluster: Cluster, *slots: str) -> Answer:
    live_reading.answer("lab", [*slots] or [SLOT], NOW)
    found = answer_to(cluster, slots or [SLOT])
    assert found is not None
    return found


def test_an_answer_comes_back_as_it_was_kept(cluster: Cluster) -> None:
    keep(cluster, [SLOT, OTHER], Answer(NOW, "some", measured()))

    assert answer_to(cluster, [OTHER, SLOT]) == Answer(NOW, "some", measured())
    assert answer_to(cluster, [SLOT]) is None


def test_the_last_answer_replaces_the_one_before(cluster: Cluster) -> None:
    keep(cluster, [SLOT], Answer(NOW, "", measured()))
    keep(cluster, [SLOT], Answer(NOW + timedelta(minutes=1), "gone", None))

    assert answer_to(cluster, [SLOT]) == Answer(NOW + timedelta(minutes=1), "gone", None)


def test_what_nobody_asks_for_any_more_is_forgotten(cluster: Cluster) -> None:
    keep(cluster, [OTHER], Answer(NOW - timedelta(hours=2), "", measured()))
    keep(cluster, [SLOT], Answer(NOW, "", measured()))

    assert LiveRange.objects.count() == 1


def test_a_damaged_answer_is_none(cluster: Cluster) -> None:
    keep(cluster, [SLOT], Answer(NOW, "", measured()))
    LiveRange.objects.update(data=b"nonsense")

    assert answer_to(cluster, [SLOT]) is None


def test_the_task_asks_by_uuid_and_keeps_what_came(
    cluster: Cluster, board: None, prometheus: Prometheus
) -> None:
    tasks.read_live_range("lab", [SLOT])

    found = answer_to(cluster, [SLOT])
    assert found is not None
    assert "holds no series" in found.detail  # of now: the fake one's value is of another time
    assert "GPU-a" in prometheus.web.asked[0].query["query"]


def test_values_stand_under_the_slot(cluster: Cluster, board: None, prometheus: Prometheus) -> None:
    found = ask(cluster)

    assert found.detail == ""
    assert found.measured is not None
    assert found.measured.lines[SLOT]["power_w"][-1] == 300.0
    assert found.measured.step == live_reading.STEP


def test_an_instance_is_found_by_the_board_that_it_lies_on(cluster: Cluster, prometheus: Prometheus) -> None:
    device_row(node_row(cluster), "00000000:10:00.0/mig-7", uuid="GPU-a")
    prometheus.series = [{"metric": POWER | {"GPU_I_ID": "7"}, "values": [[AT, "90"]]}]

    found = ask(cluster, f"{SLOT}/mig-7")

    assert found.measured is not None
    assert found.measured.lines[f"{SLOT}/mig-7"]["power_w"][-1] == 90.0


def test_devices_that_cannot_be_asked_for_are_counted(
    cluster: Cluster, board: None, prometheus: Prometheus
) -> None:
    assert ask(cluster, SLOT, OTHER).detail == "1 GPU without a known UUID cannot be asked for."


def test_without_any_uuid_nothing_is_asked(cluster: Cluster, prometheus: Prometheus) -> None:
    assert "No UUID of these GPUs is known" in ask(cluster).detail
    assert prometheus.web.asked == []


def test_more_boards_than_one_question_names_are_refused(
    cluster: Cluster, prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_reading, "MOST_BOARDS", 1)
    node = node_row(cluster)
    for place in (SLOT, OTHER):
        device_row(node, place.partition("/")[2])

    assert "2 boards are more than the 1" in ask(cluster, SLOT, OTHER).detail


def test_a_prometheus_that_holds_nothing_says_so(
    cluster: Cluster, board: None, prometheus: Prometheus
) -> None:
    prometheus.series = []

    found = ask(cluster)

    assert found.measured is None
    assert found.detail.startswith("Prometheus at http://127.0.0.1")
    assert found.detail.endswith("holds no series of these GPUs in the last 3 h.")


def test_a_prometheus_that_refuses_is_quoted(cluster: Cluster, board: None, prometheus: Prometheus) -> None:
    prometheus.status = 403

    assert "forbids what was asked (403)" in ask(cluster).detail


def test_a_secret_in_the_address_is_not_kept(
    cluster: Cluster, board: None, prometheus: Prometheus, settings: Any
) -> None:
    url = prometheus.web.url.replace("http://", "http://sre:hunter2@")
    settings.CLUSTERS = {"lab": DeclaredCluster(prometheus=DeclaredPrometheus(url=url))}
    prometheus.status = 500

    assert "hunter2" not in ask(cluster).detail


def test_the_same_question_within_half_a_minute_is_not_asked_again(
    cluster: Cluster, board: None, prometheus: Prometheus
) -> None:
    for seconds in (0, 20, 40):
        live_reading.answer("lab", [SLOT], NOW + timedelta(seconds=seconds))

    assert len(prometheus.web.asked) == 2


def test_a_cluster_without_prometheus_is_told(cluster: Cluster, board: None, settings: Any) -> None:
    settings.CLUSTERS = {"lab": DeclaredCluster()}

    assert ask(cluster).detail == "No Prometheus is declared for this cluster."


def test_a_cluster_that_is_not_declared_is_left_alone(cluster: Cluster, settings: Any) -> None:
    settings.CLUSTERS = {}
    live_reading.answer("lab", [SLOT], NOW)
    live_reading.answer("nowhere", [SLOT], NOW)

    assert not LiveRange.objects.exists()
