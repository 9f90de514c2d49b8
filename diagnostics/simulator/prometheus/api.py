"""Prometheus' HTTP API over the simulated cluster: queries, labels, series and what tools ask of a server first."""

import json
import math
from datetime import datetime
from urllib.parse import parse_qs

from diagnostics.simulator.kube import Answer
from diagnostics.simulator.prometheus.evaluation import evaluated, is_range, samples
from diagnostics.simulator.prometheus.series import LOOKBACK_S, Database, Grid, Labels
from diagnostics.simulator.prometheus.syntax import BadQuery, Selector, duration_s, parsed

MOST_POINTS = 11_000
VERSION = {"version": "2.53.3", "revision": "", "branch": "", "goVersion": ""}


class PrometheusApi:
    """Answers a GET; `paths` begin with /api/v1/ or /-/."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, path: str, query: str, now: datetime) -> Answer:
        asked = parse_qs(query, keep_blank_values=True)
        try:
            return _success(self._data(path, asked, now.timestamp()))
        except LookupError:
            return Answer(b"404 page not found\n", 404, "text/plain; charset=utf-8")
        except BadQuery as error:
            body = {"status": "error", "errorType": "bad_data", "error": str(error)}
            return Answer(json.dumps(body).encode(), 400)

    def _data(self, path: str, asked: dict[str, list[str]], now: float) -> object:
        """Raises BadQuery, LookupError for a path that there is not."""
        match path.removeprefix("/api/v1/").split("/"):
            case ["query"]:
                return self._instant(_one(asked, "query"), _time(asked, "time", now))
            case ["query_range"]:
                return self._range(asked)
            case ["labels"]:
                return sorted({name for labels in self._known(asked, now) for name, _ in labels})
            case ["label", name, "values"]:
                return sorted(
                    {dict(labels)[name] for labels in self._known(asked, now) if name in dict(labels)}
                )
            case ["series"]:
                return [dict(labels) for labels in self._known(asked, now)]
            case ["status", "buildinfo"]:
                return VERSION
            case ["status", "runtimeinfo"]:
                return {"storageRetention": "100y"}
        raise LookupError(path)

    def _instant(self, query: str, at: float) -> object:
        if is_range(query):
            found = [
                {
                    "metric": dict(labels),
                    "values": [[t, written(v)] for t, v in zip(times, values, strict=True)],
                }
                for labels, times, values in samples(query, self._database, at)
            ]
            return {"resultType": "matrix", "result": found}
        value = evaluated(query, self._database, Grid(at))
        if isinstance(value, float):
            return {"resultType": "scalar", "result": [at, written(value)]}
        vectors = [
            {"metric": dict(v.labels), "value": [at, written(v.points[0])]}
            for v in value
            if v.points[0] is not None
        ]
        return {"resultType": "vector", "result": vectors}

    def _range(self, asked: dict[str, list[str]]) -> object:
        start, end = _time(asked, "start", None), _time(asked, "end", None)
        step = _step(_one(asked, "step"))
        if end < start:
            raise BadQuery('invalid parameter "end": end timestamp must not be before start time')
        count = int((end - start) / step) + 1
        if count > MOST_POINTS:
            raise BadQuery("exceeded maximum resolution of 11,000 points per timeseries")
        grid = Grid(start, step, count)
        value = evaluated(_one(asked, "query"), self._database, grid)
        times = grid.times
        if isinstance(value, float):
            return {
                "resultType": "matrix",
                "result": [{"metric": {}, "values": [[t, written(value)] for t in times]}],
            }
        found = [
            {
                "metric": dict(vector.labels),
                "values": [
                    [time, written(point)]
                    for time, point in zip(times, vector.points, strict=True)
                    if point is not None
                ],
            }
            for vector in value
        ]
        return {"resultType": "matrix", "result": found}

    def _known(self, asked: dict[str, list[str]], now: float) -> list[Labels]:
        """Label sets of the series that are asked for (all without `match[]`), of the last minutes or of a span."""
        start, end = _time(asked, "start", now - LOOKBACK_S), _time(asked, "end", now)
        found: dict[Labels, None] = {}
        for text in asked.get("match[]") or ['{__name__!=""}']:
            selector = parsed(text)
            if not isinstance(selector, Selector):
                raise BadQuery("match[] is no selector")
            for stored in self._database.select(selector.matchers, start, end):
                if any(
                    value is not None and time >= start
                    for time, value in zip(stored.times, stored.values, strict=True)
                ):
                    found[stored.labels] = None
        return list(found)


def _success(data: object) -> Answer:
    return Answer(json.dumps({"status": "success", "data": data}).encode())


def _one(asked: dict[str, list[str]], name: str) -> str:
    found = asked.get(name, [""])[0]
    if not found:
        raise BadQuery(f'invalid parameter "{name}": it is missing')
    return found


def _time(asked: dict[str, list[str]], name: str, default: float | None) -> float:
    """Seconds since 1970 or RFC 3339."""
    text = asked.get(name, [""])[0]
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        try:
            value = datetime.fromisoformat(text).timestamp()
        except ValueError:
            value = math.nan
    if not math.isfinite(value) or abs(value) > 2**33:
        raise BadQuery(f'invalid parameter "{name}": cannot parse {text!r} to a valid timestamp')
    return value


def _step(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = duration_s(text)
    if not (math.isfinite(value) and value > 0):
        raise BadQuery(
            'invalid parameter "step": zero or negative query resolution step widths are not accepted'
        )
    return value


def written(value: float | None) -> str:
    """As Go prints a float: the shortest text that reads as the same number."""
    if value is None or math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(float(value))
    return text.removesuffix(".0")
