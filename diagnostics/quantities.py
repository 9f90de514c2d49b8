"""Kubernetes quantities and times as numbers, and numbers as people read them."""

from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

_SUFFIX = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10) ** 3, "M": Decimal(10) ** 6, "G": Decimal(10) ** 9, "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15, "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10, "Mi": Decimal(2) ** 20, "Gi": Decimal(2) ** 30, "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50, "Ei": Decimal(2) ** 60,
}  # fmt: skip


def quantity(text: str | float) -> float:
    """A Kubernetes quantity (`250m`, `16Gi`, `1e3`) in base units: cores, bytes or a count.

    Grammar: k8s.io/apimachinery `resource.Quantity`. Raises ValueError for anything else.
    """
    if isinstance(text, int | float):
        return float(text)
    number, suffix = text.strip(), ""
    for length in (2, 1):
        if number[-length:] in _SUFFIX and not number[-length:].isdigit():
            number, suffix = number[:-length], number[-length:]
            break
    try:
        value = float(Decimal(number) * _SUFFIX[suffix])
    except InvalidOperation:
        msg = f"not a quantity: {text[:40]!r}"
        raise ValueError(msg) from None
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 -- NaN is the only value unequal to itself
        msg = f"not a finite quantity: {text[:40]!r}"
        raise ValueError(msg)
    return value


def resources(raw: dict[str, str] | None) -> dict[str, float]:
    """A resource list with each amount in base units; entries that are no quantity are left out."""
    found: dict[str, float] = {}
    for name, text in (raw or {}).items():
        try:
            found[name] = quantity(text)
        except ValueError:
            continue
    return found


def gib(amount_bytes: float | None) -> str:
    """`43.7 GiB`, `512 MiB`, `unknown`."""
    if amount_bytes is None:
        return "unknown"
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(amount_bytes) >= size:
            value = amount_bytes / size
            return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.1f} {unit}"
    return f"{amount_bytes:.0f} bytes"


def span(duration: timedelta | None) -> str:
    """`12 min`, `3 h 20 min`, `2 d 4 h`, `45 s`, `unknown`."""
    if duration is None:
        return "unknown"
    seconds = int(duration.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def percent(ratio: float | None) -> str:
    """`87 %`, `0.4 %`, `unknown`."""
    if ratio is None:
        return "unknown"
    return f"{ratio * 100:.1f} %" if 0 < ratio < 0.1 else f"{ratio * 100:.0f} %"


def rfc3339(moment: datetime) -> str:
    """UTC with a trailing Z and whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
