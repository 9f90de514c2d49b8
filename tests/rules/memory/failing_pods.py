"""GPU pods that failed, and what a log says of them: builders for the tests of memory rules."""

from typing import Any

from diagnostics.findings import Diagnosis, Finding
from diagnostics.limits import Limits
from diagnostics.rules import catalogue, engine
from diagnostics.signatures import signals_in
from diagnostics.snapshot import Container, LogSignal, Node, Pod, Terminated
from tests.builders import ago, container, node, pod, snapshot

RULES = tuple(rule for rule in catalogue() if rule.family == "memory")


def ended(reason: str = "Error", exit_code: int = 1, **fields: Any) -> Terminated:
    """Ended four minutes ago after a run of six minutes."""
    defaults = {"started_at": ago(minutes=10), "finished_at": ago(minutes=4)}
    return Terminated(reason=reason, exit_code=exit_code, **(defaults | fields))


def looping(how: Terminated | None = None, **fields: Any) -> Container:
    """A GPU container in CrashLoopBackOff."""
    defaults: dict[str, Any] = {
        "state": "waiting",
        "waiting_reason": "CrashLoopBackOff",
        "running_since": None,
        "is_ready": False,
        "last_terminated": how or ended(),
        "restarts": 4,
    }
    return container(**(defaults | fields))


def restarted(how: Terminated | None = None, **fields: Any) -> Container:
    """A GPU container that runs and is ready again."""
    defaults: dict[str, Any] = {
        "last_terminated": how or ended(),
        "restarts": 1,
        "running_since": ago(minutes=3),
    }
    return container(**(defaults | fields))


def failing_pod(box: Container | None = None, name: str = "train-0", **fields: Any) -> Pod:
    return pod(name, **({"containers": (box or looping(),)} | fields))


def signals(log: str, of: Pod, *, box: str = "main", previous: bool = False) -> tuple[LogSignal, ...]:
    return signals_in(log, namespace=of.namespace, pod=of.name, container=box, previous=previous)


def diagnosed(*parts: Any, log: str = "", previous: bool = False, **fields: Any) -> Diagnosis:
    """The family's rules over a snapshot in which the first pod wrote `log`; its log counts as read."""
    pods = [p for p in parts if isinstance(p, Pod)]
    box = pods[0].containers[0].name
    told = signals(log, pods[0], box=box, previous=previous)
    read = {"signals": told, "logs_read": tuple(p.key for p in pods)}
    nodes = () if any(isinstance(p, Node) for p in parts) else (node(),)
    return engine.run(RULES, snapshot(*nodes, *parts, **(read | fields)), Limits())


def found(slug: str, *parts: Any, **fields: Any) -> list[Finding]:
    return [f for f in diagnosed(*parts, **fields).findings if f.slug == slug]
