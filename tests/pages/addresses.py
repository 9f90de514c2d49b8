"""Every page with an example address: what holds for all pages is tested by this one list."""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse


class Example(NamedTuple):
    """What the addresses are of; the pages are there if these objects are."""

    node: str
    place: str
    """Slot of one of its GPUs, without the node."""
    kind: str
    namespace: str
    workload: str
    finding: str
    """Fingerprint of an incident that has opened."""
    event: int
    """Primary key of the event that says so."""
    rule: str = "GPU101"
    slug: str = "lab"

    @property
    def slot(self) -> str:
        return f"{self.node}/{self.place}"


PAGES: dict[str, tuple[str, ...]] = {
    "home": (),
    "overview": ("slug",),
    "cluster_map": ("slug",),
    "node_list": ("slug",),
    "node_detail": ("slug", "node"),
    "gpu_detail": ("slug", "slot"),
    "workload_list": ("slug",),
    "workload_detail": ("slug", "kind", "namespace", "workload"),
    "pending_list": ("slug",),
    "finding_list": ("slug",),
    "finding_detail": ("slug", "finding"),
    "finding_excerpt": ("slug", "finding"),
    "incident_list": ("slug",),
    "waste": ("slug",),
    "status": ("slug",),
    "rule_list": (),
    "rule_detail": ("rule",),
    "glossary": (),
    "style": (),
    "usage_settings": (),
    "rule_settings": (),
    "connect": (),
}
"""Name of each page -> what of an example its address is made of."""
QUERIES: dict[str, tuple[str, ...]] = {"finding_excerpt": ("event",)}
"""What a page cannot do without, of an example, after the question mark."""
FRAGMENTS: dict[str, tuple[str, ...]] = {}
"""Parts that a page fetches later: no pages by themselves, but answered by GET, too."""
ACTIONS: dict[str, tuple[str, ...]] = {"follow_up": ("slug", "finding")}
"""What only takes POST."""


def address(name: str, example: Example) -> str:
    """Of a page, fragment or action; raises NoReverseMatch for one that `diagnostics.urls` does not have."""
    arguments = (PAGES | FRAGMENTS | ACTIONS)[name]
    query = urlencode({field: getattr(example, field) for field in QUERIES.get(name, ())})
    path = reverse(name, args=[getattr(example, field) for field in arguments])
    return f"{path}?{query}" if query else path


def addresses(example: Example, names: Iterable[str] = PAGES) -> dict[str, str]:
    """Name of each page -> its address. A page that is missing fails `test_addresses` alone."""
    found = {}
    for name in names:
        with suppress(NoReverseMatch):
            found[name] = address(name, example)
    return found
