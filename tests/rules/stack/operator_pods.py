"""Pods of the GPU Operator on a node, well and not: builders for the tests of the stack's rules."""

from typing import Any

from diagnostics.signatures import signals_in
from diagnostics.snapshot import Condition, Container, LogSignal, OwnerKey, Pod, Terminated
from tests.builders import ago, pod


def component(app: str, *containers: Container, minutes: float = 30, **fields: Any) -> Pod:
    """A pod of an operator DaemonSet on gpu-1 that has not been ready for `minutes`."""
    daemon_set = OwnerKey("DaemonSet", "gpu-operator", app, "apps/v1")
    defaults: dict[str, Any] = {
        "gpus": 0,
        "labels": {"app": app},
        "owners": (daemon_set,),
        "root": daemon_set,
        "conditions": (Condition("Ready", "False", since=ago(minutes=minutes)),),
        "created_at": ago(minutes=minutes),
        "started_at": ago(minutes=minutes),
        "containers": containers,
    }
    return pod(fields.pop("name", f"{app}-x2x4q"), "gpu-operator", **(defaults | fields))


def crashing(name: str, message: str = "", **fields: Any) -> Container:
    defaults: dict[str, Any] = {
        "state": "waiting",
        "waiting_reason": "CrashLoopBackOff",
        "restarts": 9,
        "last_terminated": Terminated("Error", 1, message=message),
    }
    return Container(name=name, **(defaults | fields))


def pulling(name: str, image: str = "", message: str = "not found") -> Container:
    return Container(
        name=name, image=image, state="waiting", waiting_reason="ImagePullBackOff", waiting_message=message
    )


def waiting_in_init(name: str) -> Container:
    return Container(name=name, is_init=True, state="running")


def ready(name: str) -> Container:
    return Container(name=name, state="running", is_ready=True)


def well(app: str, name: str, **fields: Any) -> Pod:
    return component(app, ready(name), conditions=(Condition("Ready", "True", since=ago(days=1)),), **fields)


def said(of: Pod, text: str) -> tuple[LogSignal, ...]:
    """What a log of the pod's first container gives."""
    return signals_in(text, namespace=of.namespace, pod=of.name, container=of.containers[0].name)
