"""Waiting until a child answers."""

import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import redis

from diagnostics.management.supervisor import Supervisor

WITHIN_S = 60.0
BETWEEN_S = 0.05


class NotReady(Exception):
    """A child runs but does not answer."""


class Interrupted(KeyboardInterrupt):
    """It is time to end before all was ready."""


def until_broker_answers(supervisor: Supervisor, path: Path) -> None:
    """Raises NotReady, ChildDied, Interrupted."""

    def answers() -> bool:
        with redis.Redis(unix_socket_path=str(path), socket_timeout=1) as client:
            return bool(client.ping())

    _until(supervisor, "the broker", answers, redis.RedisError)


def until_web_answers(supervisor: Supervisor, url: str) -> None:
    """Raises NotReady, ChildDied, Interrupted."""

    def answers() -> bool:
        with urllib.request.urlopen(f"{url}healthz", timeout=5) as response:  # noqa: S310 - our own http address
            return bool(response.status == 200)

    _until(supervisor, "the web server", answers, OSError)


def _until(supervisor: Supervisor, what: str, answers: Callable[[], bool], error: type[Exception]) -> None:
    for _ in range(round(WITHIN_S / BETWEEN_S)):
        try:
            if answers():
                return
        except error:
            pass
        if supervisor.wait(BETWEEN_S):
            raise Interrupted
    msg = f"{what} does not answer; its log is in {supervisor.logs}"
    raise NotReady(msg)
