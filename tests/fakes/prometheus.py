"""A loopback Prometheus that answers our questions from recorded answers of a real one (2.42)."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.web import Asked, Reply, Web, web

RECORDINGS = Path(__file__).parents[1] / "recordings" / "prometheus"
KINDS = ("times", "current", "scrapes", "windows", "xids", "xid_counts", "down")
Body = dict[str, Any]
Answer = Callable[[str, Asked], Reply | Body | None]
"""(kind of question, request) -> a reply, or a body to choose series from; None for the recorded one."""


def kind_of(query: str) -> str:
    """Which of our questions a query is."""
    marks = {
        "up": "down", " @ ": "xids", "DCGM_EXP_XID": "xid_counts", "timestamp(": "times",
        "label_replace(": "windows", "by (__name__": "current",
    }  # fmt: skip
    return next(
        (kind for mark, kind in marks.items() if re.search(rf"(?<!\w){re.escape(mark)}", query)), "scrapes"
    )


def recorded(kind: str) -> Body:
    body: Body = json.loads((RECORDINGS / f"{kind}.json").read_text())
    return body


def asked_for(query: str, kind: str, body: Body) -> Body:
    """The answer cut down to the series that this batch asks for; what is no proper series stays."""

    def belongs(series: Any) -> bool:
        labels = series.get("metric") if isinstance(series, dict) else None
        if not labels:
            return True
        if kind == "current":
            return labels.get("__name__", "") in query
        return kind != "windows" or f'"{labels.get("measure", "")}"' in query

    result = [series for series in body["data"]["result"] if belongs(series)]
    return {**body, "data": {**body["data"], "result": result}}


def as_json(body: object, **reply: Any) -> Reply:
    return Reply(json.dumps(body).encode(), content_type="application/json", **reply)


@contextmanager
def prometheus(answer: Answer = lambda kind, asked: None, *, is_zipped: bool = True) -> Iterator[Web]:
    """Serve until the block ends."""

    def reply(asked: Asked) -> Reply:
        query = asked.query.get("query", "")
        kind = kind_of(query)
        special = answer(kind, asked)
        if isinstance(special, Reply):
            return special
        return as_json(asked_for(query, kind, special or recorded(kind)), is_zipped=is_zipped)

    with web(reply) as served:
        yield served
