"""Usage of containers read through the real client: what is kept, what is joined, and what is said when it fails."""

from datetime import timedelta
from typing import Any

import pytest

from diagnostics.collect.container_usage import UsageReadings, read_usage, unasked, with_usage
from diagnostics.collect.target import PrometheusTarget
from diagnostics.collect.usage_questions import MOST_NAMESPACES, UsageQuestions
from diagnostics.snapshot import Low, Pod, Source, SourceState, Stat
from tests.builders import GIB, NOW, gpu, node, pod, snapshot
from tests.fakes.prometheus import as_json
from tests.fakes.web import Asked, Reply, web

SPAN = timedelta(minutes=30)
TRAIN = pod("train-0")
CADVISOR = {"namespace": "research", "pod": "train-0", "container": "main"}


def series(measure: str, value: object, **labels: str) -> dict[str, Any]:
    return {"metric": {"measure": measure, **labels}, "value": [NOW.timestamp(), str(value)]}


def answered(*found: dict[str, Any]) -> Reply:
    return as_json({"status": "success", "data": {"resultType": "vector", "result": list(found)}})


def read(*found: dict[str, Any], pods: tuple[Pod, ...] = (TRAIN,), **options: Any) -> UsageReadings:
    """Everything comes back for the first question, nothing for the others."""
    pending = [answered(*found)]

    def reply(asked: Asked) -> Reply:
        return pending.pop() if pending else answered()

    with web(options.pop("reply", reply)) as served:
        return read_usage(PrometheusTarget(url=served.url, **options), pods, SPAN, NOW, 5.0)


def test_keeps_what_each_container_used_over_the_window() -> None:
    found = read(
        series("min working_set", 8 * GIB, **CADVISOR),
        series("avg working_set", 9 * GIB, **CADVISOR),
        series("max working_set", 10 * GIB, **CADVISOR),
        series("count working_set", 60, **CADVISOR),
        series("low 0", 7 * GIB, **CADVISOR),
        series("low 14400", 5 * GIB, **CADVISOR),
        series("throttled", 0.25, **CADVISOR),
        series("cores", 3.5, **CADVISOR),
        series("oom_kills", 1, **CADVISOR),
    )
    (usage,) = found.containers
    assert usage.key == ("research/train-0", "main")
    assert usage.working_set_bytes == Stat(8 * GIB, 9 * GIB, 10 * GIB)
    assert usage.samples_count == 60
    assert usage.rss_bytes is None, "not collected is not zero"
    assert usage.rss_lows == (Low(NOW - timedelta(hours=4), 5 * GIB), Low(NOW, 7 * GIB))
    assert (usage.throttled_ratio, usage.cpu_cores, usage.oom_kills) == (0.25, 3.5, 1)
    assert (found.status.state, found.status.items) == (SourceState.OK, 1)


def test_only_gpu_pods_that_exist_are_kept() -> None:
    web_pod = pod("web-0", gpus=0)
    found = read(
        series("cores", 1, **CADVISOR),
        series("cores", 1, **(CADVISOR | {"pod": "web-0"})),
        series("cores", 1, **(CADVISOR | {"pod": "gone-0"})),
        pods=(TRAIN, web_pod),
    )
    assert [u.pod for u in found.containers] == ["research/train-0"]


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf", "many", 2.0**61])
def test_what_is_no_measurement_is_dropped(value: object) -> None:
    assert read(series("cores", value, **CADVISOR)).containers == ()


def test_devices_are_joined_by_uuid_and_holder_and_nodes_by_name() -> None:
    found = read(
        series("low 0", 1024, UUID="GPU-gpu-1-0", exported_namespace="research", exported_pod="train-0"),
        series("low 3600", 512, UUID="GPU-gpu-1-0", exported_namespace="research", exported_pod="train-0"),
        series("low 3600", 900, UUID="GPU-gpu-1-0", exported_namespace="research", exported_pod="earlier-0"),
        series("low 0", 900, UUID="GPU-unknown"),
        series("io_wait", 0.2, instance="gpu-1.example:9100"),
        series("io_wait", 0.3, instance="cpu-9:9100"),
    )
    shot = with_usage(snapshot(node(), TRAIN, gpu(holders=(TRAIN.key,)), sources=()), found)
    (course,) = shot.gpu_courses
    assert [low.used_bytes for low in course.lows] == [512 * 2**20, 1024 * 2**20]
    assert [(n.node, n.io_wait_ratio) for n in shot.node_usage] == [("gpu-1", 0.2)]
    assert shot.source(Source.USAGE).state is SourceState.ABSENT, "there were no containers"
    assert shot.course_by_slot[course.slot] == course


def test_an_empty_answer_says_what_is_not_scraped() -> None:
    status = read().status
    assert status.state is SourceState.ABSENT
    assert "cAdvisor" in status.detail


def test_a_cluster_without_gpu_pods_asks_nothing() -> None:
    asked: list[Asked] = []

    def reply(question: Asked) -> Reply:
        asked.append(question)
        return answered()

    assert read(pods=(), reply=reply).status.state is SourceState.OK
    assert asked == []


def test_a_dead_prometheus_costs_the_usage_and_nothing_else() -> None:
    status = read(reply=lambda asked: Reply(b"no", status=503)).status
    assert status.state is SourceState.FAILED
    assert status.items is None


def test_a_question_that_fails_leaves_the_others() -> None:
    def reply(asked: Asked) -> Reply:
        if "io_wait" in asked.query["query"]:
            return Reply(b"{}", status=500)
        return answered(series("cores", 2, **CADVISOR))

    found = read(reply=reply)
    assert found.status.state is SourceState.PARTIAL
    assert [u.cpu_cores for u in found.containers] == [2]


def test_without_a_prometheus_it_says_what_it_needs() -> None:
    status = unasked().status
    assert (status.name, status.state) == (Source.USAGE, SourceState.ABSENT)
    assert "Prometheus" in status.detail


def test_the_number_of_questions_is_fixed_and_each_selector_is_narrowed() -> None:
    few = UsageQuestions('cluster="prod",', SPAN, ["research", "serving"]).all()
    many = UsageQuestions("", SPAN, [f"ns-{n}" for n in range(MOST_NAMESPACES + 1)]).all()
    assert len(few) == len(many) == 8
    assert all('cluster="prod"' in query for query in few)
    assert 'namespace=~"research|serving"' in few[0]
    assert "namespace=~" not in many[0]


def test_hostile_namespaces_do_not_get_into_a_query() -> None:
    query = UsageQuestions("", SPAN, ['x"} or vector(1) or up{a="', "research"]).all()[0]
    assert "vector" not in query
    assert 'namespace=~"research"' in query
