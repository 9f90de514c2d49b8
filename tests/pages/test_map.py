"""The cluster map: what its colours say, what a filter leaves, a job on it, other moments, and how large it may be."""

import gzip
import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Severity, Subject
from diagnostics.models import ArchivedSnapshot, Incident, StoredPicture
from diagnostics.snapshot import Condition, Gpu, Metrics, Snapshot, Source, State
from diagnostics.text import printable
from tests.builders import GIB, NOW, ago, gpu, node, owner, pod, snapshot
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, keep, polled
from tests.pages.test_findings import flat as flattened
from tests.pages.test_hostile_names import HIDDEN, Read, hostile_name

pytestmark = pytest.mark.django_db

MAP = "/c/lab/map/"
BUDGET_BYTES = 200_000


def read(browser: Client, query: str = "") -> str:
    return browser.get(MAP + query).content.decode()


def flat(text: str) -> str:
    """Words as they are read: no blank between a name and its colon."""
    return flattened(text).replace(" :", ":")


def cells(text: str) -> list[tuple[str, str]]:
    """(classes, letter) of each GPU, in the order of the page."""
    return re.findall(r'<a class="([^"]*)" href="/c/lab/gpus/[^>]*>([^<]*)</a>', text)


def letters(browser: Client, query: str = "") -> str:
    """Of all GPUs in a row; a blank for a dimmed one."""
    return "".join(letter or " " for _, letter in cells(read(browser, query)))


def measured(**fields: Any) -> Metrics:
    return Metrics(sampled_at=NOW, **fields)


def held(
    index: int, by: str = "train", on: str = "gpu-1", kind: str = "Job", **fields: Any
) -> tuple[Any, Any]:
    """A GPU and the pod of that owner that holds it."""
    holder = pod(f"{by}-{on}-{index}", root=owner(kind, by), node=on)
    return gpu(index, on, **({"state": State.EFFECTIVE, "holders": (holder.key,)} | fields)), holder


def of_one(*parts: Any, **fields: Any) -> Snapshot:
    return snapshot(node(), *parts, **fields)


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


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?namespace=research", "E  "),
        ("?workload=Job/research/train", "E  "),
        ("?workload=Job/research/gone", "   "),
        ("?workload=nonsense", "   "),
        ("?state=free", " F "),
        ("?state=not_evaluated", "  ?"),
        ("?model=NVIDIA-H100", "  ?"),
        ("?q=gpu-2", "  ?"),
        ("?q=train", "E  "),
        ("?q=rack-a+TRAIN", "E  "),
        ("?q=rack-b+train", "   "),
        ("?q=cordoned", "  ?"),
        ("?q=none", "   "),
        ("?state=nonsense&by=nonsense&group=nonsense", "EF?"),
    ],
)
def test_what_does_not_match_keeps_its_place_without_a_letter(browser: Client, query: str, left: str) -> None:
    other = node("gpu-2", rack="rack-b", unschedulable=True, labels={"nvidia.com/gpu.product": "NVIDIA-H100"})
    polled(
        seen=snapshot(
            node("gpu-1", rack="rack-a"),
            other,
            *held(0),
            gpu(1, state=State.FREE),
            gpu(0, "gpu-2", state=None),
        )
    )
    assert letters(browser, query) == left


def test_counts_what_matches_of_how_many(browser: Client) -> None:
    polled(seen=snapshot(node("a"), node("b"), *held(0, on="a"), gpu(1, "a"), gpu(0, "b")))
    text = flat(read(browser, "?q=train"))
    assert "1 of 3 GPUs match, on 1 of 2 nodes" in text
    assert "effective: 1" in text


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("", ["rack-2", "rack-10", "rack not known"]),
        ("?group=rack", ["rack-2", "rack-10", "rack not known"]),
        ("?group=nvlink", ["NVLink domain d1", "NVLink domain not known"]),
        ("?group=zone", ["zone eu-1"]),
        ("?group=none", []),
    ],
)
def test_groups_stand_in_counting_order_and_the_unlabelled_last(
    browser: Client, query: str, groups: list[str]
) -> None:
    seen = snapshot(
        node("a", rack="rack-10", zone="eu-1", nvlink_domain="d1"),
        node("b", rack="rack-2", zone="eu-1"),
        node("c", zone="eu-1"),
        *(gpu(0, name) for name in "abc"),
    )
    polled(seen=seen)
    headings = [flat(h) for h in re.findall(r"<h2>(.*?)</h2>", read(browser, query), re.DOTALL)]
    assert [re.sub(r" \d+ GPU.*", "", heading) for heading in headings] == groups


def test_nodes_are_grouped_by_what_their_labels_allow(browser: Client) -> None:
    polled(seen=snapshot(node("a", nvlink_domain="d1"), gpu(0, "a")))
    assert "NVLink domain d1" in flat(read(browser))


def test_nodes_stand_in_counting_order_without_their_common_domain(browser: Client) -> None:
    polled(seen=snapshot(*(node(f"gpu-{i}.example.org") for i in (10, 9))))
    assert re.findall(r'class="row-link"[^>]*><bdi>([^<]*)', read(browser)) == ["gpu-9", "gpu-10"]


def test_a_long_name_keeps_both_of_its_ends(browser: Client) -> None:
    polled(seen=snapshot(node("gke-prod-gpu-pool-1-5f3a2c1b-x7kq")))
    text = read(browser)
    assert "<bdi>gke-prod-…a2c1b-x7kq</bdi>" in text
    assert 'title="gke-prod-gpu-pool-1-5f3a2c1b-x7kq"' in text


def test_a_node_in_trouble_says_so_beside_its_name(browser: Client) -> None:
    sick = node(conditions=(Condition("Ready", "False"),), unschedulable=True)
    polled(seen=snapshot(sick, node("gpu-2", conditions=())))
    text = read(browser)
    assert 'class="map-trouble" title="not ready, cordoned"' in text
    assert 'title="readiness unknown"' in text


def test_a_node_without_known_gpus_is_not_an_empty_place(browser: Client) -> None:
    polled(seen=snapshot(node("a", gpus=0, labels={"nvidia.com/gpu.present": "true"})))
    assert "no GPU known" in read(browser)


# A job.


def test_a_selected_job_says_where_it_is_and_which_links_it_crosses(browser: Client) -> None:
    nodes = [node(f"n{i}", rack=f"rack-{i // 2}", zone="eu-1") for i in range(4)]
    parts = [part for i in range(3) for g in (0, 1) for part in held(g, on=f"n{i}")]
    trouble = finding(
        "GPU302", subject=Subject(kind="Job", namespace="research", name="train"), title="Spread"
    )
    polled(trouble, seen=snapshot(*nodes, *parts))

    text = flat(read(browser, "?workload=Job/research/train"))

    assert "6 GPUs on 3 nodes" in text
    assert "in 2 racks" in text
    assert "NVLink domains: not all labelled" in text
    assert "n0 (2), n1 (2), n2 (2)" in text
    assert "NVLink inside a node, on 3 nodes" in text
    assert "network inside rack rack-0" in text
    assert "network between racks rack-0 and rack-1 (the slowest between its GPUs)" in text
    assert "Spread" in text
    assert "/c/lab/findings/?namespace=research&amp;q=train" in read(browser, "?workload=Job/research/train")


def test_a_job_that_holds_nothing_is_not_called_small(browser: Client) -> None:
    polled(seen=of_one(gpu(0, state=State.FREE)))
    text = flat(read(browser, "?workload=Job/research/gone"))
    assert "It holds no GPU." in text
    assert "0 of 1 GPU match" in text


def test_findings_of_others_are_not_those_of_the_job(browser: Client) -> None:
    other = Subject(kind="Job", namespace="other", name="train")
    polled(finding("GPU302", subject=other, title="Not ours"), seen=of_one(*held(0)))
    text = flat(read(browser, "?workload=Job/research/train"))
    assert "Not ours" not in text
    assert "No finding about it is open." in text
    assert "none: it has one GPU" in text


# What is not there.


def test_without_a_poll_there_is_no_map(browser: Client) -> None:
    cluster()
    text = flat(read(browser))
    assert "No poll of this cluster has brought anything yet." in text
    assert "0 GPUs" not in text


def test_a_cluster_without_gpus_says_what_would_count(browser: Client) -> None:
    polled(seen=snapshot(node("cpu-1", gpus=0)))
    assert "No node with GPUs was seen." in read(browser)


def test_nodes_that_were_read_in_part_are_said_to_be(browser: Client) -> None:
    polled(seen=of_one(gpu(0), without=[Source.NODES]))
    assert "Incomplete. Nodes were read only in part (absent)" in flat(read(browser))


def test_a_picture_that_cannot_be_read_is_named(browser: Client) -> None:
    polled(seen=of_one())
    StoredPicture.objects.update(devices=b"nonsense", workloads=b"nonsense")
    assert "What the last poll stored cannot be read" in flat(read(browser))


def test_there_is_no_map_of_an_unknown_cluster(browser: Client) -> None:
    assert browser.get("/c/nowhere/map/").status_code == 404


# Other moments.


@pytest.fixture
def watched() -> None:
    """One GPU that was idle two hours ago, and is free now."""
    of = polled(at=ago(hours=2), seen=of_one(*held(0, state=State.IDLE_EMPTY), taken_at=ago(hours=2)))
    polled(of=of, seen=of_one(gpu(0, state=State.FREE)))


@pytest.mark.usefixtures("watched")
def test_the_map_shows_the_cluster_as_it_was(browser: Client) -> None:
    text = read(browser, "?at=2026-06-01T10:30:00Z")
    assert cells(text) == [("cell-idle_empty", "I")]
    assert "As it was at 2026-06-01 10:00:00 UTC" in flat(text)
    assert "data-live" not in text
    assert "age" not in re.findall(r'id="freshness"[^>]*>(.*?)</div>', text, re.DOTALL)[0]
    assert f"{MAP}?at=2026-06-01T09%3A30%3A00Z" in text


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("at", ["2026-06-01T12:30:00+02:00", "2026-06-01T10:30"])
def test_a_moment_may_carry_its_zone_and_is_of_the_sites_without(browser: Client, at: str) -> None:
    assert letters(browser, f"?at={quote(at)}") == "I"
    assert letters(browser, f"?at={at}") == "I"


@pytest.mark.usefixtures("watched")
def test_a_selection_and_findings_of_another_moment_are_of_that_moment(browser: Client) -> None:
    Incident.objects.all().delete()
    of = StoredPicture.objects.get().cluster
    polled(finding(), of=of, at=NOW + timedelta(minutes=1), seen=of_one(gpu(0, state=State.FREE)))
    assert letters(browser, "?by=finding&at=2026-06-01T10:30:00Z") == "–"
    assert letters(browser, "?by=finding") == "W"
    text = flat(read(browser, "?workload=Job/research/train&at=2026-06-01T10:30:00Z"))
    assert "1 GPU on 1 node" in text
    assert "No finding about it was open." in text


@pytest.mark.usefixtures("watched")
def test_a_time_of_which_nothing_is_kept_shows_no_map(browser: Client) -> None:
    text = flat(read(browser, "?at=2020-01-01T00:00:00Z"))
    assert "Nothing is kept of that time or before." in text
    assert "Not now: asked for is 2020-01-01 00:00:00 UTC" in text
    assert not cells(text)


@pytest.mark.usefixtures("watched")
def test_a_damaged_archive_shows_no_map(browser: Client) -> None:
    ArchivedSnapshot.objects.update(data=b"nonsense")
    assert "Nothing is kept of that time or before." in flat(read(browser, "?at=2026-06-01T10:30:00Z"))


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(
    "at", ["yesterday", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00"]
)
def test_what_is_no_moment_is_said_to_be_none(browser: Client, at: str) -> None:
    response = browser.get(MAP, {"at": at})
    assert response.status_code == 200
    text = flat(response.content.decode())
    assert "No such moment:" in text or "Nothing is kept of that time or before." in text


# How it is sent.


@pytest.mark.parametrize(
    "headers", [HTMX | {"HX-Boosted": "true"}, HTMX | {"HX-History-Restore-Request": "true"}]
)
def test_a_boosted_link_and_history_get_the_full_page(browser: Client, headers: dict[str, str]) -> None:
    polled(seen=of_one(gpu(0)))
    assert "<!DOCTYPE html>" in browser.get(MAP, headers=headers).content.decode()


def test_the_live_part_announces_the_count(browser: Client) -> None:
    polled(seen=of_one(gpu(0)))
    text = browser.get(MAP, headers=HTMX).content.decode()
    status = re.search(r'<p id="status-line" hx-swap-oob="innerHTML">(.*?)</p>', text, re.DOTALL)
    assert "<!DOCTYPE html>" not in text
    assert status
    assert flat(status[1]) == "1 GPU on 1 node"


def test_what_did_not_change_is_not_sent_again(browser: Client) -> None:
    of = polled(seen=of_one(gpu(0, state=State.FREE)))
    first = browser.get(f"{MAP}?by=memory", headers=HTMX)
    same = HTMX | {"If-None-Match": first.headers["ETag"]}
    assert browser.get(f"{MAP}?by=memory", headers=same).status_code == 304
    keep(of, of_one(gpu(0, state=State.STRANDED)))
    assert browser.get(f"{MAP}?by=memory", headers=same).status_code == 200


@pytest.mark.parametrize(
    ("query", "queries"),
    [("", 5), ("?by=owner&q=x", 5), ("?by=finding", 6), ("?workload=Job/research/train", 7)],
)
@pytest.mark.parametrize("number", [1, 40])
def test_its_queries_do_not_grow_with_the_cluster(
    browser: Client,
    django_assert_num_queries: DjangoAssertNumQueries,
    number: int,
    query: str,
    queries: int,
) -> None:
    nodes = [node(f"n{i}") for i in range(number)]
    parts = [part for n in nodes for part in held(0, on=n.name)]
    polled(
        *(finding(subject=Subject(kind="Node", name=n.name)) for n in nodes), seen=snapshot(*nodes, *parts)
    )
    with django_assert_num_queries(queries):
        browser.get(MAP + query)


def test_a_past_moment_costs_eight_queries_at_most(
    browser: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    polled(seen=of_one(*held(0)))
    with django_assert_max_num_queries(8):
        browser.get(f"{MAP}?by=finding&at=2026-06-01T12:00:00Z")


@hostile_name
def test_whatever_a_cluster_calls_its_things_is_shown_as_text(browser: Client, name: str) -> None:
    holder = pod(name, name, root=owner(name, name, name), node=name)
    sick = node(
        name,
        rack=name,
        zone=name,
        nvlink_domain=name,
        conditions=(Condition(name, "True", name, name),),
        labels={"nvidia.com/gpu.product": name},
    )
    device = Gpu(
        slot=f"{name}/{name}", node=name, mig_profile=name, state=State.EFFECTIVE, holders=(holder.key,)
    )
    polled(
        finding("GPU302", subject=Subject(kind=name, namespace=name, name=name), title=name, nodes=(name,)),
        seen=snapshot(sick, holder, device),
    )
    for query in (
        "",
        "?by=owner",
        "?by=finding",
        f"?workload={quote(f'{name}/{name}/{name}')}",
        f"?q={quote(name)}",
    ):
        page = Read(read(browser, query))
        text = "".join(page.seen)
        assert printable(name, 60)[:40] in text
        assert not HIDDEN.search(text)
        for tag, attributes in page.elements:
            assert tag not in {"img", "b", "iframe", "style"}
            assert tag != "script" or attributes["src"].startswith("/static/")
            assert not [attribute for attribute in attributes if attribute.startswith("on")]
            assert attributes.get("href", "/").startswith(("/", "#", "?"))


@pytest.mark.parametrize("by", ["state", "utilization", "owner", "finding"])
def test_eight_thousand_gpus_stay_below_200_kb_compressed(browser: Client, by: str) -> None:
    """Names and numbers as unlike each other as in a real cluster: they are what does not compress."""
    nodes, parts = [], []
    for i in range(1_000):
        name = f"ip-10-{i % 7}-{i // 250}-{i * 37 % 256}.eu-north-1.compute.internal"
        nodes.append(node(name, rack=f"rack-{i // 16}"))
        for g in range(8):
            chance = (i * 8 + g) * 2_654_435_761 % 2**32 / 2**32
            job = f"run-{(i * 8 + g) // 3 * 7919 % 100_000:05x}"
            holder = pod(
                f"{job}-{g}-{i:04x}", f"team-{i % 30}", root=owner("Job", job, f"team-{i % 30}"), node=name
            )
            sample = measured(
                utilization_ratio=round(chance, 2),
                sm_active_ratio=round(chance * 0.8, 3),
                memory_used_bytes=chance * 70 * GIB,
                memory_free_bytes=(80 - chance * 70) * GIB,
                temperature_c=float(30 + int(chance * 50)),
            )
            state = list(State)[int(chance * len(State))]
            parts += [holder, gpu(g, name, state=state, holders=(holder.key,), metrics=sample)]
    polled(seen=snapshot(*nodes, *parts))

    page = browser.get(f"{MAP}?by={by}").content

    assert len(cells(page.decode())) == 8_000
    assert len(gzip.compress(page, 6)) < BUDGET_BYTES
