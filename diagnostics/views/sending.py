"""Tasks that a page asks for, by name: views import none."""

from datetime import timedelta
from typing import Any

from celery import current_app
from kombu.exceptions import OperationalError

BROKER_WITHIN_S = 2.0
"""A reader waits for the page meanwhile."""


class NotSent(Exception):
    """The broker did not take the task in time; the message says in which way, and names no address."""


def send(task: str, *args: Any, expires: timedelta) -> None:
    """Hand a task over to the workers, who drop it if none has begun it within `expires`. Raises NotSent."""
    limits = {"socket_connect_timeout": BROKER_WITHIN_S, "socket_timeout": BROKER_WITHIN_S, "max_retries": 0}
    try:
        with current_app.connection_for_write() as connection:
            connection.transport_options = {**(connection.transport_options or {}), **limits}
            current_app.send_task(
                task, args, expires=expires.total_seconds(), connection=connection, retry=False
            )
    except (OperationalError, OSError) as error:
        msg = f"the broker does not answer ({type(error).__name__})"
        raise NotSent(msg) from error
