"""Pods that fail with a message about CUDA, and what the rules say of them."""

from typing import Any

from diagnostics.findings import Finding
from diagnostics.limits import Limits
from diagnostics.rules import catalogue, engine
from diagnostics.signatures import signals_in
from diagnostics.snapshot import Container, Node, Pod, Snapshot, Terminated
from tests.builders import ago, container, node, pod, snapshot

RULES = tuple(rule for rule in catalogue() if rule.family == "stack")


def ended(message: str = "", code: int = 1, **fields: Any) -> Terminated:
    defaults: dict[str, Any] = {
        "reason": "Error", "exit_code": code, "message": message, "finished_at": ago(minutes=2),
    }  # fmt: skip
    return Terminated(**(defaults | fields))


def looping(message: str = "", name: str = "main", gpus: int = 1, **fields: Any) -> Container:
    """A container in a crash loop, with `message` in its termination log."""
    defaults: dict[str, Any] = {
        "state": "waiting", "waiting_reason": "CrashLoopBackOff", "running_since": None, "is_ready": False,
        "last_terminated": ended(message), "restarts": 6,
    }  # fmt: skip
    return container(name, gpus, **(defaults | fields))


def refused(
    message: str, reason: str = "RunContainerError", name: str = "main", gpus: int = 1, **fields: Any
) -> Container:
    """A container that the runtime could not start."""
    defaults: dict[str, Any] = {
        "state": "waiting", "waiting_reason": reason, "waiting_message": message, "running_since": None,
        "is_ready": False,
    }  # fmt: skip
    return container(name, gpus, **(defaults | fields))


def failing(*boxes: Container, name: str = "train-0", **fields: Any) -> Pod:
    return pod(name, **({"containers": boxes or (looping(),)} | fields))


def picture(*parts: Any, log: str = "", previous: bool = False, **fields: Any) -> Snapshot:
    """The first pod wrote `log` in its first container; a node is there."""
    pods = [p for p in parts if isinstance(p, Pod)]
    told = signals_in(
        log, namespace=pods[0].namespace, pod=pods[0].name, container=pods[0].containers[0].name, previous=previous
    )  # fmt: skip
    read = {"signals": told, "logs_read": tuple(p.key for p in pods)}
    nodes = () if any(isinstance(p, Node) for p in parts) else (node(),)
    return snapshot(*nodes, *parts, **(read | fields))


def found(slug: str, *parts: Any, **fields: Any) -> list[Finding]:
    outcome = engine.run(RULES, picture(*parts, **fields), Limits())
    assert outcome.failed == ()
    return [f for f in outcome.findings if f.slug == slug]


def causes(slug: str, *parts: Any, **fields: Any) -> list[str]:
    return [f.cause for f in found(slug, *parts, **fields)]
