"""Tasks that a page asks for: what goes to the broker, and what is said where it takes nothing."""

from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from kombu.exceptions import OperationalError

from diagnostics.views.sending import NotSent, send
from tests.servers import free_port

MINUTE = timedelta(minutes=1)


def test_a_task_goes_by_its_name_and_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(current_app, "send_task", lambda *args, **how: sent.append((args, how)))

    send("some.task", "lab", ["gpu-1/0"], expires=MINUTE)

    (args, how), *more = sent
    assert args == ("some.task", ("lab", ["gpu-1/0"]))
    assert how["expires"] == 60.0
    assert not how["retry"]
    assert how["connection"].transport_options["socket_timeout"] <= 3
    assert not more


def test_a_broker_that_is_not_there_is_a_failure_and_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = current_app.connection_for_write
    monkeypatch.setattr(
        current_app, "connection_for_write", lambda: connect(f"redis://127.0.0.1:{free_port()}/0")
    )

    with pytest.raises(NotSent, match="the broker does not answer"):
        send("some.task", "lab", expires=MINUTE)


def test_what_the_broker_says_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any, **__: Any) -> None:
        raise OperationalError("redis://user:hunter2@broker")

    monkeypatch.setattr(current_app, "send_task", lost)

    with pytest.raises(NotSent) as raised:
        send("some.task", expires=MINUTE)

    assert str(raised.value) == "the broker does not answer (OperationalError)"
