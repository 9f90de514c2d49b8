"""One Prometheus, asked through `prometheus-api-client` over a session of ours that bounds and checks answers."""

import math
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import requests
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.util.retry import Retry

from diagnostics.collect.bounded_http import Answer, NoAuth, Unreadable, bounded, refusal, shown_url
from diagnostics.collect.dcgm import Skips
from diagnostics.collect.target import PrometheusTarget
from diagnostics.text import printable

MOST_BYTES = 64 * 2**20
"""Of one answer, unpacked; 8,000 GPUs come to about 30 MiB."""
GIVE_UP_AFTER = 3
"""Failed questions of one poll, after which the rest is not asked any more."""

BROKEN = "series is not as the query API describes it"


class Series(msgspec.Struct, frozen=True, gc=False):
    """One series of an answer: `value` of an instant query, `values` of a range; (seconds since 1970, text)."""

    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: tuple[tuple[float, str], ...] = ()


def number(source: Series | str) -> float | None:
    """Value of an instant answer, or of a text in one; None where there is none that reads as a number."""
    text = source if isinstance(source, str) else source.value[1] if source.value else ""
    try:
        return float(text)
    except ValueError:
        return None


class _Data(msgspec.Struct):
    result_type: str = msgspec.field(name="resultType", default="")
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Body(msgspec.Struct):
    status: str = ""
    error: str = ""
    warnings: list[str] | None = None
    data: _Data | None = None


class _Decoded(requests.Response):
    """What the library sees of an answer that has been checked and decoded."""

    def __init__(self, series: Iterator[Series]) -> None:
        super().__init__()
        self.status_code = 200
        self._series = series

    def json(self, **_: Any) -> dict[str, dict[str, Iterator[Series]]]:
        return {"data": {"result": self._series}}


class _Session(requests.Session):
    """Asks with GET only; raises Unreadable for everything but a whole, successful answer with series."""

    def __init__(self, credentials: AuthBase, skips: Skips) -> None:
        super().__init__()
        self.timeout_s = 0.0
        """For the next question; the library only takes whole seconds."""
        self.warnings: list[str] = []
        self.server_time: datetime | None = None
        self._credentials = credentials
        self._skips = skips

    def request(self, method: str | bytes, url: str | bytes, *_: Any, **options: Any) -> requests.Response:
        """The library's requests end here; credentials and certificates are ours to set."""
        if method != "GET":
            raise ValueError(method)
        timeout_s = self.timeout_s
        ask = super().request

        def bounded_ask() -> requests.Response:
            return ask(
                "GET",
                url,
                params=options.get("params"),
                auth=self._credentials,
                verify=self.verify,
                timeout=timeout_s,
                stream=True,
                allow_redirects=False,
            )

        answer = bounded(bounded_ask, timeout_s=timeout_s, most_bytes=MOST_BYTES)
        self.server_time = _date_of(answer) or self.server_time
        return _Decoded(self._series(answer))

    def _series(self, answer: Answer) -> Iterator[Series]:
        try:
            body = msgspec.json.decode(answer.body, type=_Body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if answer.status != 200:
                raise refusal(answer) from None
            what = "a web page: is it a sign-in page?" if answer.is_web_page else "something that is not JSON"
            raise Unreadable(f"answered with {what}", is_final=answer.is_web_page) from None
        if answer.status != 200:
            raise refusal(answer, body.error)
        if body.status != "success" or body.data is None:
            raise Unreadable(f"reports an error: {printable(body.error or 'without a reason', 200)}")
        if body.data.result_type not in {"vector", "matrix"}:
            kind = printable(body.data.result_type, 20) or "nothing"
            raise Unreadable(f"answered with {kind} where series were expected")
        self.warnings += [printable(warning, 200) for warning in body.warnings or ()]
        try:
            items = msgspec.json.decode(body.data.result, type=list[msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            raise Unreadable("answered with something that is not a list of series") from None
        return _series_of(items, self._skips)


def _series_of(items: list[msgspec.Raw], skips: Skips) -> Iterator[Series]:
    """One after the other: all of them decoded at once would take five times the memory of the answer."""
    for item in items:
        try:
            yield msgspec.json.decode(item, type=Series)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            skips.add(BROKEN, bytes(item)[:100].decode(errors="replace"))


def _date_of(answer: Answer) -> datetime | None:
    try:
        return parsedate_to_datetime(answer.headers["Date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return None


class Connection:
    """Asks one Prometheus as of one instant, within a budget of time. Use as a context manager."""

    def __init__(
        self, target: PrometheusTarget, now: datetime, timeout_s: float, budget_s: float, skips: Skips
    ) -> None:
        """Raises Unreadable where the address or a file of secrets cannot be used."""
        self._now = now
        self._timeout_s = timeout_s
        self._budget_s = budget_s
        self._started = time.monotonic()
        self._failures = 0
        self._end: Unreadable | None = None
        self._session = _Session(_credentials(target), skips)
        if target.ca_file is not None:
            if not target.ca_file.is_file():
                raise Unreadable(f"needs the CA file {target.ca_file}, which cannot be read")
            self._session.verify = str(target.ca_file)
        # Never a retry: the next poll is one, and the library's own would wait for as long as a server says.
        self._client = PrometheusConnect(
            url=_bare_url(target.url), session=self._session, retry=Retry(total=0), method="GET"
        )

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    @property
    def warnings(self) -> list[str]:
        """What Prometheus says of its own answers: a store behind it did not take part, for example."""
        return list(dict.fromkeys(self._session.warnings))

    @property
    def clock_skew(self) -> timedelta | None:
        """The server's clock minus `now`, from its last Date header; None without one."""
        server_time = self._session.server_time
        return None if server_time is None else server_time - self._now

    def instant(self, query: str) -> Iterator[Series]:
        """Series of an instant query at `now`. Raises Unreadable."""
        moment = {"time": f"{self._now.timestamp():.3f}"}
        return self._ask(lambda limit: self._client.custom_query(query, params=moment | limit))

    def over(self, query: str, start: datetime, step_s: int) -> Iterator[Series]:
        """Series of a range query from `start` to `now`. Raises Unreadable."""
        return self._ask(
            lambda limit: self._client.custom_query_range(
                query, start_time=start, end_time=self._now, step=str(step_s), params=limit
            )
        )

    def _ask(self, question: Callable[[dict[str, str]], Iterator[Series]]) -> Iterator[Series]:
        if self._end is not None:
            raise self._end
        left = self._budget_s - (time.monotonic() - self._started)
        if left <= 0:
            self._end = Unreadable(f"was not asked everything: {self._budget_s:g} s were over")
            raise self._end
        try:
            timeout_s = self._session.timeout_s = min(self._timeout_s, left)
            # So that Prometheus stops working when nobody waits any more.
            return question({"timeout": f"{math.ceil(timeout_s)}s"})
        except Unreadable as failure:
            self._failures += 1
            if failure.is_final or self._failures >= GIVE_UP_AFTER:
                self._end = failure
            raise


class _Bearer(AuthBase):
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _credentials(target: PrometheusTarget) -> AuthBase:
    if target.bearer_token_file is not None:
        token = _secret(target.bearer_token_file, "bearer token")
        if not token.isascii():
            raise Unreadable(
                f"needs the bearer token file {target.bearer_token_file}, which holds other text"
            )
        return _Bearer(token)
    try:
        parts = urlsplit(target.url)
    except ValueError:
        return NoAuth()  # _bare_url says what is wrong with it
    user = target.username or unquote(parts.username or "")
    if not user:
        return NoAuth()
    if target.password_file is not None:
        return HTTPBasicAuth(user.encode(), _secret(target.password_file, "password").encode())
    return HTTPBasicAuth(user.encode(), unquote(parts.password or "").encode())


def _secret(path: Path, what: str) -> str:
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise Unreadable(f"needs the {what} file {path}, which cannot be read") from None
    if not secret or not secret.isprintable():
        raise Unreadable(f"needs the {what} file {path}, which holds no {what}")
    return secret


def _bare_url(url: str) -> str:
    """The address without credentials, query and a slash at its end: the library appends `/api/v1/…`."""
    unusable = Unreadable("has an address that cannot be used: expected http:// or https://", is_final=True)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise unusable from None
    if not host or parts.scheme not in {"http", "https"}:
        raise unusable
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def shown_name(target: PrometheusTarget) -> str:
    """How messages name it: `Prometheus at http://prometheus.monitoring:9090`."""
    return f"Prometheus at {shown_url(target.url)}"
