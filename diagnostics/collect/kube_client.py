"""Asks one Kubernetes API server, through the official client's sign-in and transport. Only GET exists here."""

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

import msgspec
import urllib3
from kubernetes.client import ApiClient
from urllib3 import exceptions as http

from diagnostics.collect.kubeconfig import api_client
from diagnostics.collect.refusal import Refused, failed, lost, refusal, retry_after_s
from diagnostics.collect.target import Target

__all__ = ["Answer", "KubeConnection", "Refused", "connect"]

_CHUNK_BYTES = 256 * 1024
_REFUSAL_BYTES = 64 * 1024
_TRIES = 4
_LONGEST_WAIT_S = 10.0


class Answer(msgspec.Struct, frozen=True):
    """A successful answer (HTTP 200), decompressed."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool = False
    """The body went on beyond the bound that was set."""


def utc_now() -> datetime:
    """Our own clock."""
    return datetime.now(UTC)


def connect(target: Target, clock: Callable[[], datetime] = utc_now) -> "KubeConnection":
    """Sign in as the target says and start the clock of the whole pass. Nothing is asked yet. Raises `Refused`."""
    return KubeConnection(api_client(target), target, clock=clock)


class KubeConnection:
    """One pass over one API server, within the target's bounds on time and size. Safe to use from threads."""

    def __init__(
        self,
        client: ApiClient,
        target: Target,
        *,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client = client
        self._target = target
        self._sleep = sleep
        self.clock = clock
        """Our own clock (UTC), which `clock_skew` corrects."""
        self._deadline = time.monotonic() + target.poll_timeout_s
        self._unreachable: Refused | None = None
        self._lock = threading.Lock()
        self.server_time: datetime | None = None
        """From the Date header of the first answer that had one."""
        self.clock_skew: timedelta | None = None
        """Server minus local clock; Date headers count in whole seconds, so half a second is unknown."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()  # type: ignore[no-untyped-call]

    def get(
        self,
        path: str,
        params: Mapping[str, str | int] | None = None,
        *,
        max_bytes: int | None = None,
        is_cuttable: bool = False,
    ) -> Answer:
        """GET `path`, waiting as told on 429 and once more after a broken connection. Raises `Refused`.

        `max_bytes` (default: the target's `max_page_bytes`) bounds the decompressed body: a larger one is refused,
        or cut there with `is_cuttable`.
        """
        resets = 0
        for attempt in range(_TRIES):
            if self._unreachable is not None:
                raise self._unreachable
            try:
                answer = self._ask(path, params or {}, max_bytes or self._target.max_page_bytes, is_cuttable)
            except http.ProtocolError:
                resets += 1
                if resets > 1:
                    raise lost(f"the connection broke twice on {path}") from None
                continue
            except (http.HTTPError, OSError, ValueError) as error:
                raise self._transport_failure(error, path) from None
            if answer.status == 200:
                return answer
            told = retry_after_s(answer.headers.get("Retry-After"), answer.body)
            is_asked_to_wait = answer.status == 429 or (answer.status == 503 and told is not None)
            if not is_asked_to_wait or attempt == _TRIES - 1:
                raise refusal(answer.status, answer.body, path)
            self._wait(told if told is not None else float(attempt + 1), answer, path)
        raise failed(f"no answer to {path} after {_TRIES} tries")

    def _wait(self, seconds: float, answer: Answer, path: str) -> None:
        """As long as the server said, unless that is longer than this pass can bear."""
        if seconds > min(_LONGEST_WAIT_S, self._remaining_s()):
            raise refusal(answer.status, answer.body, path)
        self._sleep(seconds)

    def _remaining_s(self) -> float:
        return self._deadline - time.monotonic()

    def _ask(self, path: str, params: Mapping[str, str | int], max_bytes: int, is_cuttable: bool) -> Answer:
        timeout_s = min(self._target.request_timeout_s, self._remaining_s())
        if timeout_s <= 0:
            raise failed(f"given up: the whole pass took longer than {self._target.poll_timeout_s:g} s")
        _, url, headers, _, _ = self._client.param_serialize(
            "GET",
            path,
            query_params=[(name, str(value)) for name, value in params.items()],
            # As kubectl asks: logs come as plain text, and a server may refuse them to a client that wants JSON alone.
            header_params={"Accept": "application/json, */*", "Accept-Encoding": "gzip"},
            auth_settings=["BearerToken"],
        )
        asked_at = self.clock()
        # urllib3's own retries would sleep for as long as any Retry-After says and would follow redirects with the
        # token, so both are off.
        response = self._client.rest_client.pool_manager.request(
            "GET",
            url,
            # A token file usually ends in a newline, which no header may hold.
            headers={name: str(value).strip() for name, value in headers.items()},
            timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
            preload_content=False,
            retries=False,
            redirect=False,
        )
        try:
            self._note_server_time(response.headers.get("Date"), asked_at)
            is_refusal = response.status != 200
            body, is_cut = self._body(
                response, _REFUSAL_BYTES if is_refusal else max_bytes, is_cuttable or is_refusal, path
            )
        except BaseException:
            response.close()
            raise
        if is_cut:
            response.close()
        else:
            response.release_conn()
        return Answer(response.status, response.headers, body, is_cut)

    def _body(
        self, response: urllib3.BaseHTTPResponse, max_bytes: int, is_cuttable: bool, path: str
    ) -> tuple[bytes, bool]:
        """The decompressed body within its bounds on size and time, and whether it was cut."""
        until = time.monotonic() + min(self._target.request_timeout_s, self._remaining_s())
        chunks: list[bytes] = []
        size = 0
        while chunk := response.read1(_CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > max_bytes:
                if is_cuttable:
                    return b"".join(chunks)[:max_bytes], True
                raise lost(f"the answer to {path} is larger than {max_bytes / 2**20:g} MiB")
            if time.monotonic() > until:
                raise lost(f"the answer to {path} was not complete in time")
        return b"".join(chunks), False

    def _note_server_time(self, date: str | None, asked_at: datetime) -> None:
        """Skew against the middle of the request; the half second is the header's own rounding down."""
        if self.clock_skew is not None or not date:
            return
        try:
            server = parsedate_to_datetime(date)
        except ValueError:
            return
        if server.tzinfo is None:
            server = server.replace(tzinfo=UTC)
        with self._lock:
            middle = asked_at + (self.clock() - asked_at) / 2
            self.server_time = server
            self.clock_skew = server + timedelta(seconds=0.5) - middle

    def _transport_failure(self, error: Exception, path: str) -> Refused:
        """One sentence for what went wrong below HTTP. Texts of the libraries are not quoted: they hold headers."""
        host = self._client.configuration.host
        match error:
            case http.ReadTimeoutError():
                return lost(f"no answer to {path} within {self._target.request_timeout_s:g} s")
            case http.ConnectTimeoutError() if not isinstance(error, http.NewConnectionError):
                words = f"{host} did not accept a connection within {self._target.request_timeout_s:g} s"
            case http.NameResolutionError():
                words = f"the name of the API server {host} is not known"
            case http.NewConnectionError():
                words = f"the API server {host} refused the connection"
            case http.ProxyError():
                words = f"the proxy on the way to the API server {host} did not connect"
            case http.SSLError():
                words = f"TLS with the API server {host} failed: {_tls_reason(error)}"
            case http.DecodeError():
                return lost(f"the answer to {path} is not valid gzip")
            case http.LocationParseError() | http.LocationValueError() | http.URLSchemeUnknown():
                words = f"the server address {host} in the kubeconfig is not valid"
            case _:
                words = f"the API server {host} could not be asked ({type(error).__name__})"
        # Nothing else will get through either: do not wait out a timeout for each source.
        self._unreachable = failed(words)
        return self._unreachable


def _tls_reason(error: Exception) -> str:
    """OpenSSL's reason, which holds no data of ours."""
    cause = error.args[0] if error.args else error
    return str(getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or "TLS failed")
