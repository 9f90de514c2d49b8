"""Walks a picture of a cluster and puts something else in the place of parts of it."""

from collections.abc import Callable
from typing import Any

import msgspec


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with each struct in it, the innermost first, replaced by what `change` makes of it."""
    match value:
        case msgspec.Struct():
            parts = {name: getattr(value, name) for name in value.__struct_fields__}
            inner = {name: mapped(part, change) for name, part in parts.items()}
            moved = {name: part for name, part in inner.items() if part is not parts[name]}
            return change(msgspec.structs.replace(value, **moved) if moved else value)
        case tuple():
            items = tuple(mapped(item, change) for item in value)
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        case dict():
            pairs = {key: mapped(item, change) for key, item in value.items()}
            return pairs if any(pairs[key] is not value[key] for key in pairs) else value
    return value
