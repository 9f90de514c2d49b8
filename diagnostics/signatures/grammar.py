"""What a signature is: the words that announce a message, and the regular expressions that read it.

Patterns see text on one line with single blanks, and only a window of it around one of the `needles`, so that
neither a log of 50 MB nor a hostile line makes them slow. `SZ` in a pattern stands for an amount of memory.

Group names decide how a group is read: `..._bytes` as an amount with its unit (none: bytes), `..._gib` as
GiB, `..._ratio`, `..._percent`, `..._count`, `..._tokens`, `..._index`, `..._code` and `pid` as numbers,
anything else as a word. Amounts and numbers that
mean "not available" or cannot be read are left out, never zero.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

_UNITS = {
    "": 1, "b": 1, "byte": 1, "bytes": 1, "k": 2**10, "kb": 2**10, "kib": 2**10, "m": 2**20, "mb": 2**20,
    "mib": 2**20, "g": 2**30, "gb": 2**30, "gib": 2**30, "tb": 2**40, "tib": 2**40,
}  # fmt: skip
"""The tools that print KB, MB and GB here (Ray, DeepSpeed, TensorRT) divide by powers of 1024 too."""

SIZE = r"-?\d[\d.,]{0,23} ?(?:bytes?|[KMGT]i?B|B)\b"
_SIZE = re.compile(r"(-?\d[\d.,]*) ?([A-Za-z]*)")

IMPOSSIBLE_BYTES = 2.0**50
"""From here on an amount is NVML's "value not available" (2^64 bytes, printed as 17179869184.00 GiB)."""

_NUMERIC = ("_ratio", "_percent", "_count", "_tokens", "_index", "_code")

Numbers = dict[str, float]
Words = dict[str, str]
Read = Callable[[str, int], tuple[Numbers, Words, int] | None]
"""Reads a message from (text with line breaks, start of the match in it): numbers, words and where it ends;
None when it is something else."""


def size_bytes(text: str) -> float | None:
    """`43.67 GiB`, `22649242112 bytes`, `1.00MiB` in bytes; None for a sentinel or what is no amount."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        return None
    amount = number(match[1])
    if amount is None:
        return None
    value = amount * _UNITS[match[2].lower()]
    return value if abs(value) < IMPOSSIBLE_BYTES else None


def number(text: str) -> float | None:
    """A finite number, thousands separated by commas or not; None otherwise."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One kind of message that we recognise."""

    name: str
    needles: tuple[str, ...]
    """Literal words, one of which every such message contains: found first, cheaply."""
    pattern: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """Sentences of the message in any order: what it tells -> pattern. Where a key ends in `*`, every match
    counts, its numbers named by its group `key`: `process_<pid>_bytes`."""
    read: Read | None = None
    """Reads what regular expressions cannot; replaces `fields`."""
    before: int = 400
    """Characters before the needle where the pattern may begin."""
    reach: int = 3000
    """Characters after the needle that the message may span."""
    is_one_line: bool = False
    """The pattern sees line breaks, because the end of the line ends the message."""
    is_repeated: bool = False
    """Printed over and over: one signal with the newest numbers and a count."""
    example: str
    """A real-shaped line; a test finds this signature, and no other message, in it."""

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return compiled(self.pattern)

    @cached_property
    def compiled_fields(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        return tuple((name, compiled(pattern)) for name, pattern in self.fields.items())


def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\bSZ\b", lambda _: SIZE, pattern))


def read_groups(match: re.Match[str], numbers: Numbers, words: Words) -> None:
    """Add what the named groups of a match say to `numbers` and `words`."""
    for group, text in match.groupdict().items():
        if not text:
            continue
        name = group
        if name == "pid" or name.endswith(_NUMERIC):
            value = number(text)
        elif name.endswith("_bytes"):
            value = size_bytes(text)
        elif name.endswith("_gib"):
            name, value = f"{name[:-4]}_bytes", size_bytes(f"{text} GiB")
        else:
            words[name] = text.strip()[:200]
            continue
        if value is not None:
            numbers[name] = value
