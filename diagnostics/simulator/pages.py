"""One page of a list: cut, joined and compressed, the costly part kept for as long as the objects are the same."""

import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

GZIP_FROM_BYTES = 128 * 1024
"""The API server compresses answers from this size on (apiserver, endpoints/handlers/responsewriters)."""
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_TAIL = b"]}\n"


@dataclass(frozen=True, slots=True)
class Item:
    key: str
    """`namespace/name`, the order of a list."""
    body: bytes


class PageStore:
    """Compressed pages by the very objects on them: a page is compressed again only when one of them changed.
    The list's own metadata changes with every request, so it is put before the compressed items."""

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], tuple[list[bytes], bytes]] = OrderedDict()
        self._lock = Lock()

    def plain(self, head: bytes, items: Sequence[Item]) -> bytes:
        return head + b",".join([i.body for i in items]) + _TAIL

    def gzipped(self, head: bytes, items: Sequence[Item], whole: bytes) -> bytes:
        """A gzip stream of `whole`, which is `plain(head, items)`."""
        first = zlib.compressobj(1, zlib.DEFLATED, -15)
        start = first.compress(head) + first.flush(zlib.Z_FULL_FLUSH)
        sums = zlib.crc32(whole).to_bytes(4, "little") + (len(whole) & 0xFFFFFFFF).to_bytes(4, "little")
        return _GZIP_HEAD + start + self._deflated(items) + sums

    def _deflated(self, items: Sequence[Item]) -> bytes:
        bodies = [i.body for i in items]
        place = (items[0].key, items[-1].key) if items else ("", "")
        with self._lock:
            kept = self._kept.get(place)
        if kept and len(kept[0]) == len(bodies) and all(a is b for a, b in zip(kept[0], bodies, strict=True)):
            return kept[1]
        # Flushed fully, the head refers to nothing here and this to nothing there.
        rest = zlib.compressobj(1, zlib.DEFLATED, -15)
        data = rest.compress(b",".join(bodies) + _TAIL) + rest.flush(zlib.Z_FINISH)
        with self._lock:
            self._kept[place] = bodies, data
            self._kept.move_to_end(place)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return data
