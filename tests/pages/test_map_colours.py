"""The cluster map: what its colours and their legend say."""

import pytest
from django.test import Client

from diagnostics.findings import Severity, Subject
from diagnostics.snapshot import Source, State
from tests.builders import GIB, gpu, node, owner, pod, snapshot
from tests.pages.mapped import cells, flat, held, letters, measured, of_one, read
from tests.pages.stored import finding, keep, polled

pytestmark = pytest.mark.django_db


def test_each_gpu_shows_the_letter_and_colour_of_its_state_and_leads_to_its_page(browser: Client) -> None:
    polled(seen=of_one(*held(0, state=State.IDLE_HELD), gpu(1, state=State.FREE), gpu(2, state=None)))
    text = read(browser)
    assert cells(text) == [("cell-idle_held", "M"), ("cell-free", "F"), ("cell-no_data", "?")]
    assert 'href="/c/lab/gpus/gpu-1/00000000:10:00.0/"' in text
    assert 'title="GPU 0: idle, memory held&#10;' in text
    assert "&#10;Job research/train" in text


def test_an_effective_gpu_that_could_not_be_judged_looks_so(browser: Client) -> None:
    polled(seen=of_one(gpu(0, state=State.EFFECTIVE, is_unjudged=True)))
    assert cells(read(browser)) == [("cell-unjudged", "E")]
    assert "effective, not judged: 1" in flat(read(browser))


def test_the_legend_counts_what_each_colour_means(browser: Client) -> None:
    polled(seen=of_one(gpu(0, state=State.FREE), gpu(1, state=State.FREE), gpu(2, state=None)))
    text = flat(read(browser))
    assert "free: 2" in text
    assert "not evaluated: 1" in text
    assert "3 GPUs on 1 node" in text


@pytest.mark.parametrize(
    ("by", "low", "high"),
    [
        ("utilization", {"utilization_ratio": 0.0}, {"utilization_ratio": 0.99}),
        ("activity", {"sm_active_ratio": 0.05}, {"sm_active_ratio": 0.95}),
        (
            "memory",
            {"memory_used_bytes": 1.0 * GIB, "memory_free_bytes": 79.0 * GIB},
            {"memory_used_bytes": 79.0 * GIB, "memory_free_bytes": 1.0 * GIB},
        ),
        ("temperature", {"temperature_c": 31.0}, {"temperature_c": 92.0}),
    ],
)
def test_measures_have_five_steps_and_a_digit_and_no_data_is_none_of_them(
    browser: Client, by: str, low: dict[str, float], high: dict[str, float]
) -> None:
    parts = [gpu(0, metrics=measured(**low)), gpu(1, metrics=measured(**high)), gpu(2, metrics=None)]
    polled(seen=of_one(*parts))
    text = read(browser, f"?by={by}")
    (lowest, low_digit), (highest, high_digit), missing = cells(text)
    assert lowest.endswith("-0")
    assert highest.endswith("-4")
    assert int(low_digit) < 5 < int(high_digit)
    assert missing == ("cell-no_data", "?")
    assert "no data: not collected, or too old: 1" in flat(text)


def test_a_measured_zero_is_not_missing(browser: Client) -> None:
    polled(seen=of_one(gpu(0, metrics=measured(utilization_ratio=0.0))))
    text = read(browser, "?by=utilization")
    assert cells(text) == [("map-step-0", "0")]
    assert "utilization 0 %, activity no data, memory no data, temperature no data" in text
    assert "no data: not collected, or too old: 0" in flat(text)


def test_metrics_that_are_missing_are_explained_where_the_colour_shows_them(browser: Client) -> None:
    polled(seen=of_one(gpu(0), without=[Source.METRICS]))
    assert "GPU metrics (absent)" in flat(read(browser, "?by=temperature"))


def test_the_same_owner_has_the_same_colour_whatever_stands_beside_it(browser: Client) -> None:
    of = polled(seen=of_one(*held(0, "run-1"), *held(1, "other"), gpu(2, state=State.FREE)))
    first = cells(read(browser, "?by=owner"))
    keep(of, of_one(*held(0, "run-1")))
    second = cells(read(browser, "?by=owner"))
    assert first[0] == second[0]
    assert first[0][1] == "r1"
    assert first[2] == ("cell-free", "–")


def test_a_gpu_whose_holder_is_unknown_is_not_held_by_nobody(browser: Client) -> None:
    polled(seen=of_one(gpu(0, state=None), gpu(1, state=State.FREE)))
    text = read(browser, "?by=owner")
    assert cells(text) == [("cell-no_data", "?"), ("cell-free", "–")]
    assert "no data: holder unknown: 1" in flat(text)


def test_a_shared_gpu_names_all_that_share_it(browser: Client) -> None:
    a, b = pod("a", root=owner("Job", "a")), pod("b", root=owner("Job", "b"))
    polled(seen=of_one(a, b, gpu(0, state=State.EFFECTIVE, replicas=4, holders=(a.key, b.key))))
    text = read(browser, "?by=owner")
    assert cells(text) == [("map-shared", "2×")]
    assert "&#10;Job research/a&#10;Job research/b" in text
    assert "shared by several workloads: 1" in flat(text)


def test_the_legend_of_owners_lists_the_largest_and_counts_the_rest(browser: Client) -> None:
    nodes = [node(f"n{i}") for i in range(3)]
    parts = [part for i in range(20) for part in held(i % 8, f"run-{i:02}", f"n{i // 8}")]
    polled(seen=snapshot(*nodes, *parts))
    text = flat(read(browser, "?by=owner"))
    assert "Job research/run-15: 1" in text
    assert "Job research/run-16: 1" not in text
    assert "of 4 smaller workloads: 4" in text


def test_findings_colour_what_they_touch_and_nothing_beside_it(browser: Client) -> None:
    seen = snapshot(
        node("gpu-1"),
        node("gpu-2"),
        node("gpu-3"),
        *held(0, "train"),
        gpu(1, state=State.FREE),
        gpu(0, "gpu-2", state=State.FREE),
        gpu(1, "gpu-2", state=State.FREE),
        gpu(0, "gpu-3", state=State.FREE),
        gpu(1, "gpu-3", state=None),
    )
    of_gpu = Subject(kind="GPU", name="gpu-2/00000000:10:00.0")
    polled(
        finding("GPU101", "fatal-xid", subject=of_gpu, severity=Severity.CRITICAL, nodes=("gpu-2",)),
        finding("GPU302", subject=Subject(kind="Job", namespace="research", name="train"), nodes=("gpu-1",)),
        finding(subject=Subject(kind="Node", name="gpu-3"), severity=Severity.INFO, nodes=("gpu-3",)),
        seen=seen,
    )
    assert letters(browser, "?by=finding") == "W–C–II"
    assert "critical finding: 1" in flat(read(browser, "?by=finding"))


def test_a_finding_about_a_gang_touches_what_its_pods_hold(browser: Client) -> None:
    device, holder = held(0)
    gang = Subject(kind="PodGroup", namespace="research", name="g")
    polled(
        finding("GPU303", subject=gang, pods=(holder.key,), nodes=("gpu-1",)),
        seen=of_one(device, holder, gpu(1, state=State.FREE)),
    )
    assert letters(browser, "?by=finding") == "W–"


def test_the_worst_of_several_findings_wins(browser: Client) -> None:
    polled(
        finding(severity=Severity.INFO),
        finding("GPU202", severity=Severity.CRITICAL),
        seen=of_one(gpu(0, state=State.FREE)),
    )
    assert letters(browser, "?by=finding") == "C"


def test_a_gpu_that_nothing_judged_does_not_look_free_of_findings(browser: Client) -> None:
    polled(seen=of_one(gpu(0, state=None), gpu(1, state=State.FREE)))
    assert cells(read(browser, "?by=finding")) == [("cell-no_data", "?"), ("cell-free", "–")]
