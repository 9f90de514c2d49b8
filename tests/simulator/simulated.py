"""One moment, and short ways to ask a simulated cluster."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from diagnostics.simulator.build import build
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.world import World

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


def world(*faults: str, now: datetime = NOW, **changes: Any) -> World:
    return build(WorldConfig(faults=faults, **changes), now)


def ask(url: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body; header names have `_` for `-`."""
    request = Request(url, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def ask_json(url: str) -> Any:
    status, _, body = ask(url)
    assert status == 200, body[:300]
    return json.loads(body)
