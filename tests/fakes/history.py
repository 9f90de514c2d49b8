"""A loopback Prometheus that answers range queries about a few made-up series: for words, failures and odd labels."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.fakes.web import Asked, Reply, Web, web

LOOK_BACK_S = 300
_NAMES = re.compile(r'__name__=~"([^"]+)"')
_TIMESTAMP = re.compile(r"timestamp\((\w+)")
_COUNTED = re.compile(r"count\((\w+)")


@dataclass(frozen=True)
class Line:
    """One series with the same value from `start` to `end`, scraped every `every_s`; no stale marker ends it."""

    name: str
    labels: dict[str, str]
    value: float | str
    start: datetime
    end: datetime
    every_s: int = 60

    def at(self, moment_s: float) -> tuple[float, str] | None:
        """When its latest sample was scraped and what it says; None where there is none to be seen."""
        since = moment_s - self.start.timestamp()
        last_s = min(since // self.every_s * self.every_s, (self.end - self.start).total_seconds())
        if since < 0 or since - last_s > LOOK_BACK_S:
            return None
        return self.start.timestamp() + last_s, str(self.value)


@dataclass
class Kept:
    """What this Prometheus holds, and a special answer where a test wants one (None: the usual)."""

    lines: list[Line] = field(default_factory=list)
    special: Callable[[Asked], Reply | None] = lambda asked: None

    def answer(self, asked: Asked) -> Reply:
        special = self.special(asked)
        if special is not None:
            return special
        is_range = asked.path.endswith("query_range")
        result = list(self._matrix(asked.query)) if is_range else []
        data = {"resultType": "matrix" if is_range else "vector", "result": result}
        body = json.dumps({"status": "success", "data": data}).encode()
        return Reply(body, content_type="application/json")

    def _matrix(self, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        text, step = query["query"], float(query["step"])
        start, end = float(query["start"]), float(query["end"])
        moments = [start + n * step for n in range(int((end - start) // step) + 1)]
        if named := _NAMES.search(text):
            wanted, is_time = set(named[1].split("|")), False
        elif stamped := _TIMESTAMP.match(text):
            wanted, is_time = {stamped[1]}, True
        elif text.startswith("max(count("):
            yield from self._counted(set(_COUNTED.findall(text)), moments)
            return
        else:
            return
        for line in self.lines:
            if line.name not in wanted:
                continue
            seen = [(at, found) for at in moments if (found := line.at(at)) is not None]
            values = [[at, str(found[0]) if is_time else found[1]] for at, found in seen]
            if values:
                yield {"metric": line.labels | ({} if is_time else {"__name__": line.name}), "values": values}

    def _counted(self, names: set[str], moments: list[float]) -> Iterator[dict[str, Any]]:
        def most(at: float) -> int:
            seen = [line.name for line in self.lines if line.name in names and line.at(at) is not None]
            return max(map(seen.count, seen), default=0)

        counts = [(at, most(at)) for at in moments]
        values = [[at, str(count)] for at, count in counts if count]
        if values:
            yield {"metric": {}, "values": values}


@contextmanager
def served(kept: Kept) -> Iterator[Web]:
    """Serve it until the block ends."""
    with web(kept.answer) as found:
        yield found


def board(letter: str, node: str = "gpu-1", **labels: str) -> dict[str, str]:
    """Labels of a board that nobody holds."""
    number = ord(letter) - ord("a")
    return {
        "gpu": str(number),
        "UUID": f"GPU-{letter}",
        "pci_bus_id": f"00000000:{0x10 + number:02X}:00.0",
        "modelName": "NVIDIA A100-SXM4-80GB",
        "Hostname": node,
        "instance": "10.0.0.1:9400",
        "job": "dcgm",
    } | labels


def held(labels: dict[str, str], pod: str, namespace: str = "team-red") -> dict[str, str]:
    """The same, held by a pod."""
    return labels | {"pod": pod, "namespace": namespace, "container": "main"}


def busy(labels: dict[str, str], start: datetime, end: datetime, sm: float = 0.8, **more: Any) -> list[Line]:
    """What a working GPU says; `sm` 0: a quiet one with a model in its memory."""
    values = {
        "DCGM_FI_DEV_GPU_UTIL": 97 if sm else 0,
        "DCGM_FI_PROF_SM_ACTIVE": sm,
        "DCGM_FI_PROF_DRAM_ACTIVE": sm / 2,
        "DCGM_FI_DEV_POWER_USAGE": 300 if sm else 60,
        "DCGM_FI_DEV_FB_USED": 60_000,
    }
    return [Line(name, labels, value, start, end, **more) for name, value in values.items()]
