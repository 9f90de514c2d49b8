"""At most one `up` per data directory: a lock that vanishes with its holder, however it ends."""

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Self

LOCK = "up.lock"


class AlreadyRunning(Exception):
    """Another `up` has this data directory; the message says which."""


class RunningLock:
    """A context manager. The file says who holds it and where the dashboard is."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    def __enter__(self) -> Self:
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = (self.data_dir / LOCK).open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            holder = _holder(self.data_dir)
            where = f", at {holder['url']}" if holder.get("url") else ""
            msg = (
                f"GPU Health runs already on {self.data_dir} (process {holder.get('pid', 'unknown')}{where})"
            )
            raise AlreadyRunning(msg) from None
        self.announce("")
        return self

    def announce(self, url: str) -> None:
        """Where the dashboard is, for `signin_link` and for whoever starts a second one."""
        self._file.truncate(0)
        self._file.write(json.dumps({"pid": os.getpid(), "url": url}))
        self._file.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._file.truncate(0)
        self._file.close()


def running_url(data_dir: Path) -> str:
    """Where the dashboard that runs on this data directory is; empty when none does."""
    return _holder(data_dir).get("url", "")


def _holder(data_dir: Path) -> dict[str, str]:
    try:
        found = json.loads((data_dir / LOCK).read_text())
    except (OSError, ValueError):
        return {}
    return {name: str(value) for name, value in found.items()} if isinstance(found, dict) else {}
