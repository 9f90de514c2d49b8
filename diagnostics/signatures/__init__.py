"""Log lines that we recognise: `signals_in()` turns a log tail into signals with their numbers.

One table per topic; this module is the engine. To add a signature, add an entry with an example to a table.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from diagnostics.signatures import (
    boards,
    collectives,
    cuda,
    device_claims,
    driver_install,
    gpu_libraries,
    gpu_memory,
    host_memory,
    kernel,
    listings,
    operator_pods,
    servers,
    shared_memory,
)
from diagnostics.signatures.grammar import Numbers, Signature, Words, read_groups, size_bytes
from diagnostics.signatures.streams import Stream, streams, wrap_width
from diagnostics.snapshot import LogSignal
from diagnostics.text import printable

__all__ = ["SIGNATURES", "Signature", "signals_in"]

SIGNATURES: tuple[Signature, ...] = (
    *gpu_memory.SIGNATURES,
    *gpu_libraries.SIGNATURES,
    *servers.SIGNATURES,
    *listings.SIGNATURES,
    *host_memory.SIGNATURES,
    *shared_memory.SIGNATURES,
    *collectives.SIGNATURES,
    *kernel.SIGNATURES,
    *boards.SIGNATURES,
    *driver_install.SIGNATURES,
    *operator_pods.SIGNATURES,
    *cuda.SIGNATURES,
    *device_claims.SIGNATURES,
)

MOST_OCCURRENCES = 200
"""Messages of one signature that are read from one stream, the newest."""
MOST_SIGNALS = 16
"""Different signals of one signature that are kept, the newest."""


class _Found(NamedTuple):
    name: str
    stream: Stream
    start: int
    end: int
    numbers: Numbers
    words: Words

    @property
    def line_number(self) -> int:
        return self.stream.lines[self.stream.line_at(self.start)]


def signals_in(
    text: str, *, namespace: str, pod: str, container: str, previous: bool = False
) -> tuple[LogSignal, ...]:
    """The signals in one container's log tail, oldest first.

    `text` is masked already. Bounded: the newest 8 MiB, 200 messages and 16 different signals of each kind.
    """
    kept = _kept(streams(text))
    if (width := wrap_width(text)) is not None:
        kept = _better(kept, _kept(streams(text, width)))
    found = sorted((item for items in kept.values() for item in items), key=lambda pair: pair[0].line_number)
    return tuple(
        LogSignal(
            namespace=namespace,
            pod=pod,
            container=container,
            previous=previous,
            signal=item.name,
            line=_line(item),
            numbers=item.numbers,
            words=item.words,
            at=item.stream.times[item.stream.line_at(item.start)],
            count=count,
        )
        for item, count in found
    )


_Kept = dict[str, list[tuple[_Found, int]]]
"""Signature -> what is kept of it, each with its count."""


def _kept(parts: list[Stream]) -> _Kept:
    kept: _Kept = {}
    for signature in SIGNATURES:
        found = sorted((f for part in parts for f in _found(signature, part)), key=lambda f: f.line_number)
        merged: dict[object, tuple[_Found, int]] = {}
        for item in found:
            told = tuple(sorted({**item.numbers, **item.words}.items(), key=str))
            key = None if signature.is_repeated else told
            count = merged.pop(key)[1] if key in merged else 0
            merged[key] = (item, count + 1)
        kept[signature.name] = list(merged.values())[-MOST_SIGNALS:]
    return kept


def _better(plain: _Kept, glued: _Kept) -> _Kept:
    """The reading that tells more: a guess at how lines were cut must not cost a message."""

    def told(kept: _Kept) -> int:
        return sum(1 + len(item.numbers) + len(item.words) for items in kept.values() for item, _ in items)

    return max(plain, glued, key=told)


def _found(signature: Signature, stream: Stream) -> Iterator[_Found]:
    places = _occurrences(signature, stream.flat)
    done = 0
    for number, place in enumerate(places):
        if place < done:
            continue
        until = min(len(stream.flat), place + signature.reach)
        match = signature.compiled.search(
            stream.text if signature.is_one_line else stream.flat, max(done, place - signature.before), until
        )
        if match is None:
            continue
        following = [p for p in places[number + 1 : number + 8] if p >= match.end()]
        until = min(until, following[0]) if following and signature.fields else until
        item = _read(signature, stream, match, until)
        if item is not None:
            done = item.end
            yield item


def _occurrences(signature: Signature, text: str) -> list[int]:
    """Where the needles stand, in order; the newest `MOST_OCCURRENCES`."""
    places: set[int] = set()
    for needle in signature.needles:
        end = len(text)
        for _ in range(MOST_OCCURRENCES):
            end = text.rfind(needle, 0, end)
            if end < 0:
                break
            places.add(end)
    return sorted(places)[-MOST_OCCURRENCES:]


def _read(signature: Signature, stream: Stream, match: re.Match[str], until: int) -> _Found | None:
    numbers: Numbers = {}
    words: Words = {}
    end = match.end()
    if signature.read is not None:
        told = signature.read(stream.text, match.start())
        if told is None:
            return None
        numbers, words, end = told
    read_groups(match, numbers, words)
    for name, pattern in signature.compiled_fields:
        for sentence in pattern.finditer(match.string, match.start(), until):
            end = max(end, sentence.end())
            if not name.endswith("*"):
                read_groups(sentence, numbers, words)
                break
            amount = size_bytes(sentence["bytes"])
            if amount is not None:
                numbers[f"{name[:-1]}{sentence['key']}_bytes"] = amount
    return _Found(signature.name, stream, match.start(), max(end, match.start() + 1), numbers, words)


def _line(item: _Found) -> str:
    """The lines that hold the message, as one printable line."""
    first = item.stream.starts[item.stream.line_at(item.start)]
    first = max(first, item.start - 200)
    last = item.stream.text.find("\n", item.end)
    last = len(item.stream.text) if last < 0 else last
    return printable(item.stream.text[first : min(last, item.end + 400)])
