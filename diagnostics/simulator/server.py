"""The simulated cluster on loopback: the Kubernetes API, one exporter a node and a Prometheus, on one port."""

import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from diagnostics.simulator import exporter
from diagnostics.simulator.cluster_state import StateStore
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.identity import uuid_of
from diagnostics.simulator.kube import Answer, KubeApi, method_not_allowed
from diagnostics.simulator.prometheus.api import PrometheusApi
from diagnostics.simulator.prometheus.scrapes import Scrapes

Clock = Callable[[], datetime]
_AT = "/at/"


def wall_clock() -> datetime:
    return datetime.now(UTC)


@dataclass
class Injection:
    """A bad answer instead of the right one."""

    prefix: str
    status: int
    body: bytes | None
    delay_s: float
    retry_after: str
    is_truncated: bool
    times: int | None
    """How many more requests get it; None: all."""


class SimulatedCluster:
    """A context manager. `requests` has every method and path (with its query) in order."""

    def __init__(
        self, config: WorldConfig | None = None, clock: Clock = wall_clock, port: int = 0, token: str = ""
    ) -> None:
        config = config or WorldConfig()
        if config.epoch is None:
            config = replace(config, epoch=clock())
        self.config = config
        self.clock = clock
        self.token = token
        self.states = StateStore(config)
        self.kube = KubeApi(self.states, token)
        self.prometheus = PrometheusApi(Scrapes(config, clock))
        self.requests: list[tuple[str, str]] = []
        self._injections: list[Injection] = []
        self._server = _Server(("127.0.0.1", port), _handler_of(self))
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def prometheus_url(self) -> str:
        return f"{self.url}/prometheus"

    @property
    def exporter_urls(self) -> list[str]:
        """One a node, in the order of the nodes."""
        return [f"{self.url}/nodes/{name}/metrics" for name in self.states.at(self.clock()).world.nodes]

    def __enter__(self) -> Self:
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._thread:
            self._thread.join()

    def write_kubeconfig(self, path: Path | str) -> Path:
        """For one user of this cluster; the context is called `simulated`."""
        return write_kubeconfig(path, self.url, self.token)

    def inject(
        self,
        path_prefix: str,
        *,
        status: int = 200,
        body: bytes | str | None = None,
        delay: float = 0.0,
        retry_after: float | str = "",
        truncated: bool = False,
        times: int | None = None,
    ) -> None:
        """From now on (for `times` requests) paths with this prefix are answered badly: with a status and a body
        (none: the API's error object, or the right answer for 200), after `delay` seconds, or with half of the
        body and a closed connection."""
        raw = body.encode() if isinstance(body, str) else body
        self._injections.append(
            Injection(path_prefix, status, raw, delay, str(retry_after), truncated, times)
        )

    def heal(self) -> None:
        """Take back what was injected."""
        self._injections.clear()

    def injection_for(self, path: str) -> Injection | None:
        for one in self._injections:
            if path.startswith(one.prefix) and one.times != 0:
                if one.times is not None:
                    one.times -= 1
                return one
        return None

    def at(self, moment: datetime) -> str:
        """Address of the cluster as it is at a moment: of its API, its exporters and its Prometheus alike."""
        return moment_url(self.url, moment)

    def moment_of(self, target: str) -> tuple[datetime, str]:
        """The time that a request is answered for, and what it asks for. Raises ValueError for no time."""
        if not target.startswith(_AT):
            return self.clock(), target
        stamp, slash, rest = target.removeprefix(_AT).partition("/")
        return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC), slash + rest

    def answer(
        self, method: str, target: str, authorization: str, now: datetime, *, gzip: bool
    ) -> Answer | None:
        """None: the other side hangs up, as a dead exporter's does."""
        parts = urlsplit(target)
        path = parts.path.rstrip("/") or "/"
        if method != "GET":
            return method_not_allowed()
        if path == "/sd":
            return Answer(json.dumps(self._targets()).encode())
        if path.startswith("/nodes/") and path.endswith("/metrics"):
            return self._metrics(path.split("/")[2], now)
        if path.startswith("/prometheus/"):
            return self.prometheus.get(path.removeprefix("/prometheus"), parts.query, now)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        return self.kube.get(path, query, now, authorization=authorization, gzip=gzip)

    def _metrics(self, name: str, now: datetime) -> Answer | None:
        world = self.states.at(now).world
        if name not in world.nodes:
            return Answer(b"404 page not found\n", 404, "text/plain; charset=utf-8")
        text = exporter.page(world, world.nodes[name])
        return (
            Answer(text.encode(), content_type="text/plain; version=0.0.4; charset=utf-8") if text else None
        )

    def _targets(self) -> list[dict[str, object]]:
        """For Prometheus' `http_sd_configs`."""
        names = self.states.at(self.clock()).world.nodes
        return [
            {
                "targets": [f"127.0.0.1:{self.port}"],
                "labels": {"__metrics_path__": f"/nodes/{name}/metrics", "instance": f"{name}:9400"},
            }
            for name in names
        ]


def moment_url(url: str, moment: datetime) -> str:
    """Address of the simulated cluster at `url` as it is at a moment."""
    return f"{url}{_AT}{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def write_kubeconfig(path: Path | str, server: str, token: str = "") -> Path:
    """For one user of the cluster at this address; the context is called `simulated`."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulated", "cluster": {"server": server}}],
        "users": [{"name": "reader", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "simulated", "context": {"cluster": "simulated", "user": "reader"}}],
        "current-context": "simulated",
    }
    path = Path(path)
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    path.chmod(0o600)
    return path


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""


def _handler_of(cluster: SimulatedCluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            cluster.requests.append((self.command, self.path))
            length = int(self.headers.get("Content-Length") or 0)
            if length:
                self.rfile.read(length)
            injected = cluster.injection_for(self.path)
            if injected and injected.delay_s:
                time.sleep(injected.delay_s)
            takes_gzip = "gzip" in self.headers.get("Accept-Encoding", "")
            authorization = self.headers.get("Authorization", "")
            try:
                now, target = cluster.moment_of(self.path)
            except ValueError:
                now, target = cluster.clock(), "/no-such-time"
            answer = cluster.answer(self.command, target, authorization, now, gzip=takes_gzip)
            if injected:
                answer = _spoilt(answer, injected)
            if answer is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self._send(answer, now, is_truncated=bool(injected and injected.is_truncated))

        def _send(self, answer: Answer, now: datetime, *, is_truncated: bool) -> None:
            self.send_response_only(answer.status)
            headers = {
                "Audit-Id": uuid_of(cluster.config.seed, "audit", len(cluster.requests)),
                "Cache-Control": "no-cache, private",
                "Content-Type": answer.content_type,
                "Date": format_datetime(now.astimezone(UTC), usegmt=True),
                "Content-Length": str(len(answer.body)),
            } | answer.headers
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if is_truncated:
                self.close_connection = True
                self.wfile.write(answer.body[: len(answer.body) // 2])
            elif self.command != "HEAD":
                self.wfile.write(answer.body)
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Silent: `requests` has them."""

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815

    return Handler


_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    429: "TooManyRequests",
    500: "InternalError",
}


def _spoilt(answer: Answer | None, injected: Injection) -> Answer | None:
    if injected.status == 200 and injected.body is None:
        return answer
    body = injected.body
    if body is None:
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        reason = _REASONS.get(injected.status, "Unknown")
        body = json.dumps(status | {"message": reason, "reason": reason, "code": injected.status}).encode()
    headers = {"Retry-After": injected.retry_after} if injected.retry_after else {}
    return Answer(body, injected.status, headers=headers)
