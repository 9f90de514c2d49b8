"""Why an API server gave no answer that can be used: a typed refusal with a sentence that may be shown."""

import msgspec

from diagnostics.masking import mask_text
from diagnostics.snapshot import SourceState
from diagnostics.text import printable


class Refused(Exception):
    """No usable answer. `detail` is one printable line without secrets; `state` is what the source becomes."""

    def __init__(
        self,
        state: SourceState,
        detail: str,
        *,
        status: int | None = None,
        continue_token: str = "",
        is_single: bool = False,
    ) -> None:
        self.state = state
        self.detail = printable(mask_text(detail), 500)
        self.status = status
        """HTTP status; None when there was no answer at all."""
        self.continue_token = continue_token
        """Where an expired list (410) could be taken up again, inconsistently."""
        self.is_single = is_single
        """Only this one answer was lost on the way; the server may well give others."""
        super().__init__(self.detail)


def failed(detail: str) -> Refused:
    """A refusal that is neither about rights nor about absence."""
    return Refused(SourceState.FAILED, detail)


def lost(detail: str) -> Refused:
    """A failure of this one answer alone."""
    return Refused(SourceState.FAILED, detail, is_single=True)


class _Details(msgspec.Struct):
    retryAfterSeconds: int | None = None  # noqa: N815 -- the API's own name


class _Meta(msgspec.Struct, rename={"continue_token": "continue"}):
    continue_token: str = ""


class _Status(msgspec.Struct):
    """The API's error object (meta/v1 Status)."""

    message: str = ""
    reason: str = ""
    metadata: _Meta | None = None
    details: _Details | None = None


_STATE_BY_STATUS = {
    401: SourceState.FORBIDDEN,
    403: SourceState.FORBIDDEN,
    404: SourceState.ABSENT,
}
_status_decoder = msgspec.json.Decoder(_Status)


def _status_object(body: bytes) -> _Status | None:
    try:
        return _status_decoder.decode(body)
    except msgspec.MsgspecError:
        return None


def refusal(status: int, body: bytes, path: str) -> Refused:
    """What an answer other than 200 means, in the API's own words where it gives a Status object."""
    said = _status_object(body)
    words = said.message if said is not None else ""
    if status == 401:
        detail = f"the API server does not accept these credentials ({words or 'Unauthorized'})"
    elif status == 403 and words:
        detail = words
    elif 300 <= status < 400:
        detail = f"HTTP {status} for {path}: the address leads elsewhere (a proxy or a sign-in page?)"
    else:
        words = words or printable(body[:2000].decode("utf-8", "replace"), 200)
        detail = f"HTTP {status} for {path}: {words}" if words else f"HTTP {status} for {path}"
    token = said.metadata.continue_token if said is not None and said.metadata is not None else ""
    return Refused(
        _STATE_BY_STATUS.get(status, SourceState.FAILED),
        detail,
        status=status,
        continue_token=token,
    )


def retry_after_s(headers_value: str | None, body: bytes) -> float | None:
    """Seconds to wait as told by the Retry-After header, or else by the Status object; None when neither does."""
    try:
        return max(0.0, float(headers_value or ""))
    except ValueError:
        pass
    said = _status_object(body)
    if said is None or said.details is None or said.details.retryAfterSeconds is None:
        return None
    return max(0.0, float(said.details.retryAfterSeconds))
