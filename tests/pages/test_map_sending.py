"""The cluster map: in whole and in part, how many queries, how many bytes, and hostile names."""

import gzip
import re
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Subject
from diagnostics.snapshot import Condition, Gpu, State
from diagnostics.text import printable
from tests.builders import GIB, gpu, node, owner, pod, snapshot
from tests.pages.conftest import HTMX
from tests.pages.mapped import MAP, cells, flat, held, measured, of_one, read
from tests.pages.stored import finding, keep, polled
from tests.pages.test_hostile_names import HIDDEN, Read, hostile_name

pytestmark = pytest.mark.django_db

BUDGET_BYTES = 200_000


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
