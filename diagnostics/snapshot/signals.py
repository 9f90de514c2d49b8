"""Lines of logs that we recognise, reduced to what they say."""

from datetime import datetime

from diagnostics.snapshot.kubernetes import Struct


class LogSignal(Struct, frozen=True, kw_only=True):
    """A line that we recognise in a log tail (`signatures`), with the numbers that it carries."""

    namespace: str
    pod: str
    container: str
    previous: bool = False
    """From the container that ran before the last restart."""
    signal: str
    """Name of the signature, for example `torch-cuda-oom`."""
    line: str = ""
    """The masked, printable line, at most 2,000 characters."""
    numbers: dict[str, float] = {}
    """Units in the keys: `requested_bytes`."""
    words: dict[str, str] = {}
    at: datetime | None = None
    count: int = 1
    """Times seen in the tail."""

    @property
    def pod_key(self) -> str:
        return f"{self.namespace}/{self.pod}"
