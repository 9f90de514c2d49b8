"""Child processes that live and die together."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Self

TETHER = Path(__file__).with_name("tether.py")
GRACE_S = 10.0
"""Children may take this long to end when asked; then they are killed."""
TAIL_LINES = 15
LOOK_AGAIN_S = 0.5
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ChildDied(Exception):
    """A child ended by itself. The message names it and shows the end of its log."""


@dataclass(frozen=True)
class Child:
    """A running program: what people call it, and where its output goes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    is_passing: bool = False
    """It ends by itself when its work is done."""

    def obituary(self) -> str:
        code = self.process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n  ".join([f"{self.name} {how}. The end of {self.log}:", *lines])


class Supervisor:
    """A context manager: at its end, and when any child dies, all of them are gone.

    Children get sessions of their own, so that a Ctrl-C reaches this process alone and they are ended in order; the
    one that was started first goes last.
    """

    def __init__(self, logs: Path, env: Mapping[str, str], cwd: Path) -> None:
        self.logs = logs
        self.env = env
        self.cwd = cwd
        self.children: list[Child] = []
        self._wake = threading.Event()
        self._is_ending = False
        self._handlers: dict[int, object] = {}

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in ENDING:
            self._handlers[number] = signal.signal(number, self._end)
        self._handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stop_all()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)  # type: ignore[arg-type]  # what `signal` gave before

    def run(self, name: str, program: Iterable[str]) -> int | None:
        """Start a program that ends by itself: its status; None when it is time to end before. Raises ChildDied for
        another one."""
        child = self.start(name, program, is_passing=True)
        while child.process.poll() is None:
            if self.wait(LOOK_AGAIN_S):
                return None
        self.children.remove(child)
        return child.process.returncode

    def start(
        self, name: str, program: Iterable[str], *, fds: tuple[int, ...] = (), is_passing: bool = False
    ) -> Child:
        """Start a program, its output to `<name>.log`, which begins anew."""
        log = self.logs / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(TETHER), str(os.getpid()), *program],
                env=dict(self.env),
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=fds,
                start_new_session=True,
            )
        child = Child(name, process, log, is_passing)
        self.children.append(child)
        return child

    def wait(self, seconds: float | None = None) -> bool:
        """Until it is time to end (True), or for so long (False). Raises ChildDied."""
        until = None if seconds is None else monotonic() + seconds
        while True:
            for child in self.children:
                if child.process.poll() is not None and not (child.is_passing or self._is_ending):
                    raise ChildDied(child.obituary())
            if self._is_ending:
                return True
            left = None if until is None else until - monotonic()
            if left is not None and left <= 0:
                return False
            self._wake.wait(left)
            self._wake.clear()

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._is_ending = True
        self._wake.set()

    def _look(self, _number: int, _frame: FrameType | None) -> None:
        self._wake.set()

    def _stop_all(self) -> None:
        until = monotonic() + GRACE_S
        first, others = self.children[:1], self.children[1:]
        for group in (others, first):
            for child in group:
                with suppress(ProcessLookupError):
                    child.process.terminate()
            for child in group:
                with suppress(subprocess.TimeoutExpired):
                    child.process.wait(max(0.1, until - monotonic()))
            for child in group:
                # The whole session: also what a child started and left behind.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.process.pid, signal.SIGKILL)
                child.process.wait()
