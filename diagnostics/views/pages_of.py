"""A long list, cut into pages: what the paginator partial shows."""

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page as DjangoPage


@dataclass(frozen=True, kw_only=True)
class Pages:
    number: int
    count: int
    previous: int | None
    next: int | None
    first: int
    last: int
    total: int
    """Items from `first` to `last` of `total` are shown."""


def pages_of(shown: "DjangoPage[Any]") -> Pages:
    return Pages(
        number=shown.number,
        count=shown.paginator.num_pages,
        previous=shown.previous_page_number() if shown.has_previous() else None,
        next=shown.next_page_number() if shown.has_next() else None,
        first=shown.start_index(),
        last=shown.end_index(),
        total=shown.paginator.count,
    )
