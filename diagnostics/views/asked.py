"""What the address of a list asks for: text as names may be, words out of a choice, and what these leave out."""

from collections.abc import Container
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

from django.http import QueryDict

LONGEST_NAME = 253
"""Of an object of Kubernetes ("Object Names and IDs")."""
LONGEST_SEARCH = 200


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What every list lets one ask for; empty text for no restriction."""

    neutral: ClassVar[frozenset[str]] = frozenset({"sort"})
    """What leaves out nothing."""

    q: str = ""

    @property
    def is_any(self) -> bool:
        """Something is left out."""
        return any(getattr(self, field.name) for field in fields(self) if field.name not in self.neutral)

    @cached_property
    def words(self) -> list[str]:
        """Those of `q`, in any case."""
        return self.q.casefold().split()

    def mention(self, *parts: str) -> bool:
        """Each of the words stands somewhere in the parts."""
        text = " ".join(parts).casefold()
        return all(word in text for word in self.words)


def text(query: QueryDict, name: str, longest: int = LONGEST_NAME) -> str:
    """What the address says under `name`, without what no database stores; empty if it says nothing."""
    return query.get(name, "").replace("\x00", "").strip()[:longest]


def search(query: QueryDict) -> str:
    """What is searched for."""
    return text(query, "q", LONGEST_SEARCH)


def choice(query: QueryDict, name: str, known: Container[str], usual: str = "") -> str:
    """What the address says under `name` if it is one of the `known`, else the usual."""
    said = text(query, name)
    return said if said in known else usual
