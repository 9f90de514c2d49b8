"""Serves a folder of recorded API answers to the real client, with paging, logs and faults that a test injects."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.web import Asked, Reply, Web, web

RECORDINGS = Path(__file__).parent.parent / "recordings"

NOT_FOUND = json.dumps(
    {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "the server could not find the requested resource",
        "reason": "NotFound",
        "code": 404,
    }
).encode()


def recorded_error(name: str) -> bytes:
    """The body of one of the recorded refusals in `recordings/errors`."""
    return (RECORDINGS / "errors" / name).read_bytes()


@dataclass
class Fault:
    """An answer given instead of the recorded one, `times` times (None: always)."""

    path: str
    reply: Reply
    times: int | None
    when: Callable[[Asked], bool]
    given: int = 0

    def fits(self, asked: Asked) -> bool:
        spent = self.times is not None and self.given >= self.times
        return not spent and asked.path == self.path and self.when(asked)


@dataclass
class Replay:
    """One recorded cluster behind an address. Change it before or between requests."""

    folder: Path
    logs: dict[str, bytes] = field(default_factory=dict)
    """Log texts by `namespace/pod/container`, with `/previous` for the container before the last restart."""
    faults: list[Fault] = field(default_factory=list)
    edits: dict[str, Callable[[Any], None]] = field(default_factory=dict)
    """What a test changes in place in the recorded answer of a path, decoded."""
    served: Web | None = None

    def __post_init__(self) -> None:
        self._paths = json.loads((self.folder / "index.json").read_text())["paths"]

    @property
    def url(self) -> str:
        assert self.served is not None, "not serving yet"
        return self.served.url

    @property
    def asked(self) -> list[Asked]:
        """Every request so far, in order."""
        assert self.served is not None, "not serving yet"
        return self.served.asked

    def fault(
        self,
        path: str,
        reply: Reply,
        *,
        times: int | None = None,
        when: Callable[[Asked], bool] = lambda asked: True,
    ) -> None:
        """Answer requests for `path` with `reply` instead, where `when` holds."""
        self.faults.append(Fault(path, reply, times, when))

    def kubeconfig(self, file: Path, **user: Any) -> Path:
        """Write a kubeconfig for this server; `user` replaces the user's entry, a token."""
        file.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "lab", "cluster": {"server": self.url}}],
                    "users": [{"name": "lab", "user": user or {"token": "lab-token-for-tests"}}],
                    "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
                    "current-context": "lab",
                }
            )
        )
        return file

    def answer(self, asked: Asked) -> Reply:
        """What the recorded server would say."""
        if asked.method != "GET":
            return Reply(b"this server only reads", 405)
        for fault in self.faults:
            if fault.fits(asked):
                fault.given += 1
                return fault.reply
        if asked.path.endswith("/log"):
            return self._log(asked)
        entry = self._paths.get(asked.path)
        if entry is None:
            return Reply(NOT_FOUND, 404, "application/json")
        body = (self.folder / entry["file"]).read_bytes()
        if entry["status"] == 200:
            body = self._page(body, asked)
        wants_gzip = "gzip" in asked.headers.get("Accept-Encoding", "")
        return Reply(body, entry["status"], entry["contentType"], is_zipped=wants_gzip)

    def _page(self, body: bytes, asked: Asked) -> bytes:
        """`limit` and `continue` as an API server does them: an opaque token, and how many remain."""
        edit, limit = self.edits.get(asked.path), int(asked.query.get("limit", 0))
        if not edit and not limit:
            return body
        listed = json.loads(body)
        if edit:
            edit(listed)
        if limit and isinstance(listed.get("items"), list):
            token = asked.query.get("continue", "")
            start = int(base64.b64decode(token)) if token else 0
            rest = len(listed["items"]) - start - limit
            listed["items"] = listed["items"][start : start + limit]
            if rest > 0:
                listed["metadata"]["continue"] = base64.b64encode(str(start + limit).encode()).decode()
                listed["metadata"]["remainingItemCount"] = rest
        return json.dumps(listed).encode()

    def _log(self, asked: Asked) -> Reply:
        _, _, _, _, namespace, _, pod, _ = asked.path.split("/")
        key = f"{namespace}/{pod}/{asked.query.get('container', '')}"
        if asked.query.get("previous") == "true":
            key += "/previous"
        if key not in self.logs:
            return Reply(NOT_FOUND, 404, "application/json")
        lines = self.logs[key].split(b"\n")
        tail = int(asked.query.get("tailLines", len(lines)))
        # As a kubelet does it: the tail first, then its first bytes.
        return Reply(b"\n".join(lines[-tail:])[: int(asked.query.get("limitBytes", 2**62))])


@contextmanager
def replaying(folder: str | Path) -> Iterator[Replay]:
    """Serve a recorded scenario (`healthy`, `healthy/as-viewer`) on loopback until the block ends."""
    replay = Replay(RECORDINGS / folder)
    with web(replay.answer) as served:
        replay.served = served
        yield replay
