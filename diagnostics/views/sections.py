"""The sections of the dashboard, as the navigation lists them and the keyboard reaches them."""

from dataclasses import dataclass

from django.urls import NoReverseMatch, reverse


@dataclass(frozen=True, kw_only=True)
class Section:
    """One link of the navigation."""

    name: str
    """As a page's frame calls it."""
    label: str
    key: str
    """After `g`, on the keyboard."""
    url: str


_OF_A_CLUSTER = (
    ("overview", "Overview", "o", "overview"),
    ("map", "Map", "m", "cluster_map"),
    ("nodes", "Nodes", "n", "node_list"),
    ("workloads", "Workloads", "w", "workload_list"),
    ("pending", "Pending", "p", "pending_list"),
    ("findings", "Findings", "f", "finding_list"),
    ("incidents", "Incidents", "i", "incident_list"),
    ("waste", "Waste", "u", "waste"),
    ("status", "Status", "s", "status"),
)
_OF_ALL = (
    ("rules", "Rules", "r", "rule_list"),
    ("glossary", "Glossary", "l", "glossary"),
    ("usage_settings", "Teams and prices", "t", "usage_settings"),
    ("rule_settings", "Exceptions", "e", "rule_settings"),
    ("connect", "Connect a cluster", "c", "connect"),
)


def sections_of(slug: str) -> tuple[Section, ...]:
    """What there is to see of one cluster."""
    return _sections(_OF_A_CLUSTER, slug)


def reference() -> tuple[Section, ...]:
    """What belongs to no cluster."""
    return _sections(_OF_ALL)


def _sections(rows: tuple[tuple[str, str, str, str], ...], *args: str) -> tuple[Section, ...]:
    found = []
    for name, label, key, view in rows:
        try:
            found.append(Section(name=name, label=label, key=key, url=reverse(view, args=args)))
        except NoReverseMatch:
            continue
    return tuple(found)
