"""What an address asks of the map: colour, grouping, filters, a job, a moment; and addresses that ask otherwise."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.http import urlencode

from diagnostics import quantities
from diagnostics.picture import Owner
from diagnostics.snapshot import State
from diagnostics.views.asked import choice, search, text

COLOURS = ("state", "utilization", "activity", "memory", "temperature", "owner", "finding")
GROUPS = ("rack", "nvlink", "zone", "none")
NOT_EVALUATED = "not_evaluated"
"""Asks for GPUs without a state."""
STATES = (*(state.value for state in State), NOT_EVALUATED)
YEARS = range(2000, 9000)
"""Which moments may lie in; others would leave what dates can hold once hours are taken off."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """All of it; empty text for no restriction."""

    by: str = COLOURS[0]
    group: str = ""
    """Empty: whatever the labels of the nodes allow."""
    namespace: str = ""
    workload: str = ""
    """`kind/namespace/name` of a root owner."""
    model: str = ""
    state: str = ""
    q: str = ""
    at: datetime | None = None
    """None: now."""
    at_doubt: str = ""
    """What was asked for as a moment and is none."""

    @property
    def is_filtered(self) -> bool:
        return any((self.namespace, self.workload, self.model, self.state, self.q))

    @property
    def owner(self) -> Owner | None:
        """The one that `workload` names."""
        kind, _, rest = self.workload.partition("/")
        namespace, slash, name = rest.partition("/")
        return Owner(kind, namespace, name) if slash else None

    @property
    def at_words(self) -> str:
        """As addresses carry it."""
        return quantities.rfc3339(self.at) if self.at else ""

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """All but the moment, as an address or a form carries it."""
        said = {
            "by": "" if self.by == COLOURS[0] else self.by,
            "group": self.group,
            "namespace": self.namespace,
            "workload": self.workload,
            "model": self.model,
            "state": self.state,
            "q": self.q,
        }
        return tuple((name, value) for name, value in said.items() if value)

    def address(self, path: str, **changes: Any) -> str:
        """Of the same map but for `changes`."""
        asked = replace(self, **changes)
        at = (("at", asked.at_words),) if asked.at else ()
        query = urlencode((*asked.fields, *at))
        return f"{path}?{query}" if query else path


def asked_of(query: QueryDict) -> Asked:
    """Unknown words count as not said."""
    at, doubt = _moment(text(query, "at", 40))
    return Asked(
        by=choice(query, "by", COLOURS, COLOURS[0]),
        group=choice(query, "group", GROUPS),
        namespace=text(query, "namespace"),
        workload=text(query, "workload", 600),
        model=text(query, "model"),
        state=choice(query, "state", STATES),
        q=search(query),
        at=at,
        at_doubt=doubt,
    )


def workload_word(owner: Owner) -> str:
    """As `workload` of an address names it."""
    return f"{owner.kind}/{owner.namespace}/{owner.name}"


def _moment(text: str) -> tuple[datetime | None, str]:
    """A moment without a zone is one of the site's."""
    if not text:
        return None, ""
    try:
        # A plus sign in an address is a blank.
        at = parse_datetime(text.replace(" ", "+") if "T" in text else text)
        if at is None or at.year not in YEARS:
            return None, text
        aware = at if timezone.is_aware(at) else timezone.make_aware(at)
        return aware.astimezone(UTC), ""
    except (ValueError, OverflowError):
        return None, text
