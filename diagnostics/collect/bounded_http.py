"""HTTP answers within bounds of time and size, and their failures in plain words without secrets."""

import errno
import ssl
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError, NameResolutionError

from diagnostics.snapshot import SourceState
from diagnostics.text import printable

_CHUNK = 64 * 1024

_PLAIN = {
    400: "refused the question",
    404: "has nothing at this address",
    422: "could not work out the question",
    429: "is asked too often",
    500: "failed inside",
    502: "is behind a gateway that cannot reach it",
    503: "is not ready, or overloaded",
    504: "is behind a gateway that waited too long for it",
}


class Unreadable(Exception):
    """Why an answer cannot be used, in words that fit behind the name of who was asked."""

    def __init__(
        self, detail: str, state: SourceState = SourceState.FAILED, *, is_final: bool = False
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.state = state
        self.is_final = is_final
        """Asking the same server something else now would fail the same way."""


class NoAuth(AuthBase):
    """Sends no credentials: without it, requests would look for some in ~/.netrc."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class Answer:
    """Status, headers and the whole body of one answer."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def is_web_page(self) -> bool:
        """HTML instead of data: most often a sign-in page."""
        return "html" in self.headers.get("Content-Type", "") or self.body[:64].lstrip()[:1] == b"<"


def shown_url(url: str) -> str:
    """`url` without user, password, query and fragment, and fit to print."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        netloc = f"{host}:{parts.port}" if parts.port else host
    except ValueError:
        return "(not a usable address)"
    return printable(urlunsplit((parts.scheme, netloc, parts.path, "", "")), 200)


def bounded(ask: Callable[[], requests.Response], *, timeout_s: float, most_bytes: int) -> Answer:
    """The answer to `ask`, at most `most_bytes` after unpacking and about `timeout_s` in all.

    `ask` must make its request with `stream=True` and `allow_redirects=False`, so that credentials go to the
    address asked and to no other. Raises Unreadable when there is no whole answer, or one that only sends us
    elsewhere; every other status comes back, and `refusal` words it.
    """
    deadline = time.monotonic() + timeout_s
    try:
        with ask() as response:
            if response.is_redirect:
                target = shown_url(response.headers.get("Location", ""))
                raise Unreadable(f"sends us elsewhere ({target}): a sign-in page, or https", is_final=True)
            body = _body(response, deadline, timeout_s, most_bytes)
            return Answer(response.status_code, response.headers, body)
    except (requests.RequestException, HTTPError, OSError, ValueError) as error:
        raise worded(error, timeout_s) from None


def _body(response: requests.Response, deadline: float, timeout_s: float, most_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    # read1 returns after each packet, so that a server that drips is noticed.
    while chunk := response.raw.read1(_CHUNK, decode_content=True):
        chunks.append(chunk)
        size += len(chunk)
        if size > most_bytes:
            raise Unreadable(f"answered with more than {most_bytes // 2**20} MiB: given up")
        if time.monotonic() > deadline:
            raise Unreadable(f"did not finish its answer within {timeout_s:g} s")
    return b"".join(chunks)


def refusal(answer: Answer, why: str = "") -> Unreadable:
    """An answer with a status other than 200, in words; `why`: the server's own message, if it has one."""
    status, state, is_final = answer.status, SourceState.FAILED, False
    if status == 401:
        words, state, is_final = "does not accept our credentials (401)", SourceState.FORBIDDEN, True
    elif status == 403:
        words, state, is_final = "forbids what was asked (403)", SourceState.FORBIDDEN, True
    else:
        words = f"{_PLAIN.get(status, 'answered in an unexpected way')} ({status})"
        is_final = status in {404, 429}
    return Unreadable(f"{words}: {printable(why, 200)}" if why else words, state, is_final=is_final)


def worded(error: Exception, timeout_s: float) -> Unreadable:
    """A failure to get an answer, in plain words; the library's own text is dropped: it holds addresses."""
    chain = _chain(error)
    if isinstance(error, requests.exceptions.Timeout) or any("timed out" in str(e) for e in chain):
        return Unreadable(f"did not answer within {timeout_s:g} s")
    if isinstance(error, HTTPError | requests.exceptions.ChunkedEncodingError):
        return Unreadable("broke off in the middle of its answer")
    if any(isinstance(e, ssl.SSLCertVerificationError) for e in chain):
        words = "has a certificate that is not trusted here: name its CA file"
    elif isinstance(error, requests.exceptions.SSLError):
        words = "does not speak TLS as expected: is it http://, or is the CA file no certificate?"
    elif any(isinstance(e, NameResolutionError) for e in chain):
        words = "has a name that cannot be resolved"
    elif any(isinstance(e, OSError) and e.errno == errno.ECONNREFUSED for e in chain):
        words = "refuses the connection: nothing listens there"
    elif isinstance(error, ValueError):
        words = "has an address that cannot be used"
    else:
        words = "cannot be reached"
    return Unreadable(words, is_final=True)


def _chain(error: BaseException) -> list[BaseException]:
    """The error and all that it wraps: requests and urllib3 keep the reason in arguments and attributes."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting and len(found) < 20:
        item = waiting.pop()
        if isinstance(item, BaseException) and item not in found:
            found.append(item)
            waiting += [*item.args, getattr(item, "reason", None), item.__cause__, item.__context__]
    return found
