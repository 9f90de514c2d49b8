"""Reads one list page by page, fetching the next page while the last is decoded."""

from concurrent.futures import ThreadPoolExecutor

import msgspec

from diagnostics.collect.kube_client import KubeConnection
from diagnostics.collect.refusal import Refused, failed
from diagnostics.collect.wire.listing import ItemReader, Skips, opened
from diagnostics.snapshot import Skipped, SourceState
from diagnostics.text import counted

_MOST_RESTARTS = 2
_MOST_PAGES = 5_000


class Listing[T](msgspec.Struct):
    """What came of one list. `items` is empty unless the state is usable."""

    items: list[T]
    state: SourceState = SourceState.OK
    detail: str = ""
    skipped: tuple[Skipped, ...] = ()


def read_list[T](
    connection: KubeConnection,
    path: str,
    reader: ItemReader[T],
    *,
    page_size: int,
    keeps_broken: bool = False,
) -> Listing[T]:
    """The whole list at `path`; a refusal becomes its state. Raises nothing of its own.

    A continue token that expired (410) starts the list again. A list that breaks off counts as failed, since half of
    the pods would make the other half look lost; with `keeps_broken` (events) its part is kept as partial.
    """
    for restart in range(_MOST_RESTARTS + 1):
        items: list[T] = []
        skips = Skips()
        try:
            _read_pages(connection, path, reader, page_size, items, skips)
        except Refused as refused:
            if refused.status == 410 and restart < _MOST_RESTARTS:
                continue
            if not items:
                return Listing([], refused.state, refused.detail)
            broken = f"broke off after {counted(len(items), 'object')}: {refused.detail}"
            if keeps_broken:
                return Listing(items, SourceState.PARTIAL, broken, skips.found())
            return Listing([], SourceState.FAILED, broken)
        return _judged(items, skips)
    raise AssertionError("the last restart returns")


def _judged[T](items: list[T], skips: Skips) -> Listing[T]:
    if not skips.total:
        return Listing(items)
    if not items:
        detail = f"none of {counted(skips.total, 'object')} could be read"
        return Listing([], SourceState.FAILED, detail, skips.found())
    detail = f"{counted(skips.total, 'object')} could not be read and {'is' if skips.total == 1 else 'are'} left out"
    return Listing(items, SourceState.PARTIAL, detail, skips.found())


def _read_pages[T](
    connection: KubeConnection, path: str, reader: ItemReader[T], page_size: int, items: list[T], skips: Skips
) -> None:
    """Append every page's items. One page is on its way while another is decoded, and none is kept."""
    seen = set[str]()
    with ThreadPoolExecutor(1, thread_name_prefix="next-page") as ahead:
        coming = ahead.submit(_page, connection, path, page_size, "")
        for _ in range(_MOST_PAGES):
            page = opened(coming.result(), path)
            token = page.continue_token
            if token in seen:
                raise failed(f"the list {path} goes round in circles")
            seen.add(token)
            if token:
                coming = ahead.submit(_page, connection, path, page_size, token)
            items += reader.read(page, skips)
            if not token:
                return
        raise failed(f"the list {path} has more than {_MOST_PAGES} pages")


def _page(connection: KubeConnection, path: str, page_size: int, token: str) -> bytes:
    params: dict[str, str | int] = {"limit": page_size}
    if token:
        params["continue"] = token
    return connection.get(path, params).body
