"""A loopback web server whose answers a test scripts, and which remembers what it was asked."""

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]


@dataclass(frozen=True)
class Reply:
    body: bytes = b""
    status: int = 200
    content_type: str = "text/plain"
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    """Before the first byte."""
    drip_s: float = 0.0
    """Between single bytes of the body."""
    cut_after: int | None = None
    """Bytes of the body after which the connection is closed."""
    is_zipped: bool = False


@dataclass
class Web:
    url: str
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def web(answer: Callable[[Asked], Reply]) -> Iterator[Web]:
    """Serve on a free port of 127.0.0.1 until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            asked = Asked(self.command, parts.path, query, dict(self.headers.items()))
            served.asked.append(asked)
            reply = answer(asked)
            time.sleep(reply.wait_s)
            body = gzip.compress(reply.body) if reply.is_zipped else reply.body
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(body)))
            if reply.is_zipped:
                self.send_header("Content-Encoding", "gzip")
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self._send(body, reply)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _send(self, body: bytes, reply: Reply) -> None:
            if reply.cut_after is not None:
                self.wfile.write(body[: reply.cut_after])
                self.close_connection = True
            elif reply.drip_s:
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    time.sleep(reply.drip_s)
            else:
                self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a test's output is its own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Web(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
