"""Whatever a cluster calls its things, pages show it as text."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from django.test import Client

from diagnostics.findings import Evidence, Subject
from diagnostics.fixes import Fix
from diagnostics.snapshot import Condition, Metrics, State, Taint
from diagnostics.text import printable
from tests.builders import gpu, node, snapshot
from tests.pages.stored import cluster, finding, polled, step

pytestmark = pytest.mark.django_db

HOSTILE = {
    "html": "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "attribute": "\" onmouseover=alert(3) x='",
    "ansi": "\x1b[31mred\x1b[0m",
    "direction": "\u202egnp.exe\u2066",
    "template": "{{ 7|add:7 }}{% now 'Y' %}",
    "format": "%s%(x)s%n{0}{x.__class__}",
    "lines": "a\nb\r\nc\x00d",
    "long": "x" * 5000,
    "address": "../../admin/?a=b#c",
    "link": "javascript:alert(4) https://evil.example/",
    "backticks": "a`b``c",
}
HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]")
hostile_name = pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)

PAGES = ["/c/lab/findings/", "/c/lab/incidents/", "/c/lab/nodes/", "/c/lab/status/"]


def pages(browser: Client, name: str) -> dict[str, str]:
    """All pages of a cluster in which everything is called `name`, by address."""
    of = finding(
        subject=Subject(kind=name, namespace=name, name=name),
        cause=name,
        title=f"Pod {name} fails",
        summary=name,
        evidence=(Evidence(name, name, name, name),),
        fix=Fix(
            name,
            (
                step(
                    title=name,
                    why=name,
                    expect=name,
                    command=f"kubectl get pod '{name}'",
                    manifest=name,
                    diff=name,
                ),
            ),
        ),
        nodes=(name,),
        pods=(name,),
        overrides=(name,),
    )
    sick = node(
        name,
        rack=name,
        kernel=name,
        conditions=(Condition(name, "True", name, name),),
        taints=(Taint(name, name, name),),
        labels={"nvidia.com/gpu.product": name, "nvidia.com/mig.config": name},
    )
    device = gpu(0, name, uuid=name, state=State.FREE, holders=(name,), metrics=Metrics(power_w=1.0))
    polled(
        of,
        of=cluster(name=name[:200]),
        seen=snapshot(sick, device),
        coverage=[{"code": "GPU901", "what": name, "cure": name}],
        rules_failed=[{"code": name, "error": name}],
        exempted=[
            {
                "code": code,
                "count": 1,
                "kept": [{"kind": name, "namespace": name, "name": name, "reason": name}],
            }
            for code in (name, "GPU501")
        ],
        error=name.replace("\x00", ""),
        sources=[
            {
                "name": "pods",
                "status": "partial",
                "detail": name.replace("\x00", ""),
                "items": 1,
                "seconds": 0.1,
                "skipped": [{"reason": name, "count": 1, "example": name}],
            }
        ],
    )
    addresses = [*PAGES, f"/c/lab/findings/{of.id}/"]
    listed = browser.get("/c/lab/nodes/").content.decode()
    found = re.search(r'class="row-link"\s+href="([^"]*)"', listed)
    assert found
    addresses.append(unquote(found[1]))
    answers = {address: browser.get(address) for address in addresses}
    return {
        address: answer.content.decode() for address, answer in answers.items() if answer.status_code == 200
    }


class Read(HTMLParser):
    """What a browser makes of a page: its elements with their attributes, and the text that people see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.seen: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append((tag, attributes))
        self.seen.append(attributes.get("title", ""))

    def handle_data(self, data: str) -> None:
        self.seen.append(data)


def assert_shows_as_text(page: str, name: str) -> None:
    """The page says `name`, and none of it became an element, a script or an address."""
    read = Read(page)
    text = "".join(read.seen)
    assert printable(name, 60)[:40] in text
    assert not HIDDEN.search(text)
    for tag, attributes in read.elements:
        assert tag not in {"img", "b", "iframe", "style"}
        assert tag != "script" or attributes["src"].startswith("/static/")
        assert not [attribute for attribute in attributes if attribute.startswith("on")]
        assert attributes.get("href", "/").startswith(("/", "#", "?"))


@hostile_name
def test_every_page_shows_it_as_text(browser: Client, name: str) -> None:
    shown = pages(browser, name)

    assert set(shown) >= {*PAGES}
    for page in shown.values():
        assert_shows_as_text(page, name)


def test_a_template_in_a_name_is_not_run(browser: Client) -> None:
    for text in pages(browser, HOSTILE["template"]).values():
        assert "{{ 7|add:7 }}" in text


def test_a_node_whose_name_holds_a_slash_has_a_page(browser: Client) -> None:
    polled(seen=snapshot(node("a/b?c#d")))

    assert "a/b?c#d" in browser.get("/c/lab/nodes/a%2Fb%3Fc%23d/").content.decode()


def test_a_node_without_a_name_hides_no_other(browser: Client) -> None:
    polled(seen=snapshot(node(""), node("gpu-2")))

    response = browser.get("/c/lab/nodes/")

    assert response.status_code == 200
    assert "gpu-2" in response.content.decode()
