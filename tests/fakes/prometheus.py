"""A loopback Prometheus that answers our questions from recorded answers of a real one (2.42) to `gpu_history`."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import requests

from diagnostics.collect.promql import Questions
from tests.fakes.gpu_history import NOW, SPAN
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


def answers_of(url: str) -> dict[str, Body]:
    """What the Prometheus at `url`, holding `gpu_history`, answers to each kind of question."""
    questions, end = Questions("", SPAN), NOW.timestamp()

    def ask(path: str, query: str, **params: Any) -> Body:
        response = requests.get(f"{url}/api/v1/{path}", params={"query": query} | params, timeout=10)
        body: Body = response.json()
        return body

    def joined(queries: list[str]) -> Body:
        first, *rest = (ask("query", query, time=end) for query in queries)
        for body in rest:
            first["data"]["result"] += body["data"]["result"]
        return first

    course = {"start": end - SPAN.total_seconds(), "end": end, "step": 30}
    scrapes = questions.scrapes("DCGM_FI_DEV_FB_USED", "UUID", ["GPU-a", "GPU-b"], timedelta(minutes=10))
    return {
        "times": joined([questions.times()]),
        "current": joined(questions.current()),
        "scrapes": joined([scrapes]),
        "windows": joined(questions.windows()),
        "xids": ask("query_range", questions.xids(round(end)), **course),
        "xid_counts": ask("query_range", questions.xid_counts(), **course),
        "down": joined([questions.down()]),
    }


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
