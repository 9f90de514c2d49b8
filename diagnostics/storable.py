"""Values from a cluster made fit for a database: SQLite takes nearly everything, PostgreSQL does not."""

from typing import Any

import msgspec


def storable(value: Any) -> Any:
    """A struct, or plain values, as JSON that every database takes.

    NUL characters, which PostgreSQL refuses in text and in JSON, become U+FFFD; NaN and infinities become None.
    """
    return _clean(msgspec.json.decode(msgspec.json.encode(value)))


def storable_text(text: str, limit: int | None = None) -> str:
    """Text without NUL characters, cut to `limit` characters."""
    return text.replace("\x00", "\ufffd")[:limit]


def _clean(value: Any) -> Any:
    match value:
        case str():
            return storable_text(value)
        case dict():
            return {_clean(key): _clean(item) for key, item in value.items()}
        case list():
            return [_clean(item) for item in value]
    return value
