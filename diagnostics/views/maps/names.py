"""Names fit to show, nodes' as short as the map needs them, in the order in which people count."""

import re
from collections.abc import Iterable

from diagnostics.text import printable

LONGEST = 20
_NUMBERS = re.compile(r"(\d+)")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Key that sorts `gpu-2` before `gpu-10`."""
    parts = _NUMBERS.split(name[:253])
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Name -> what stands on the map: without a domain that all of them share, and with the middle left out if long."""
    names = tuple(names)
    domains = {name.partition(".")[2] for name in names}
    shared = f".{domains.pop()}" if len(domains) == 1 and len(names) > 1 else ""
    return {
        name: _cut(printable(name.removesuffix(shared) if shared != "." else name, 253)) for name in names
    }


def _cut(name: str) -> str:
    """Both ends tell nodes apart: pools at the start, numbers at the end."""
    if len(name) <= LONGEST:
        return name
    end = LONGEST // 2
    return f"{name[: LONGEST - end - 1]}…{name[-end:]}"
