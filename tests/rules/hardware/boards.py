"""Boards in every state, and what the hardware rules say of them: builders for their tests."""

from typing import Any

import msgspec

from diagnostics.findings import Diagnosis, Finding
from diagnostics.limits import Limits
from diagnostics.rules import catalogue, engine
from diagnostics.signatures import signals_in
from diagnostics.snapshot import Gpu, LogSignal, Metrics, Node, XidSeen
from tests.builders import NOW, ago, gpu, node, snapshot, window

RULES = tuple(rule for rule in catalogue() if rule.family == "hardware")
SLOT = "gpu-1/00000000:13:00.0"


def seen(code: int, minutes: float | None = 12, **fields: Any) -> XidSeen:
    return XidSeen(code=code, last_at=None if minutes is None else ago(minutes=minutes), **fields)


def board(
    index: int = 3,
    *,
    metrics: dict[str, Any] | None = None,
    over: dict[str, Any] | None = None,
    **fields: Any,
) -> Gpu:
    """A busy healthy board; `metrics` and `over` (of its window) change some values."""
    whole = gpu(index, **fields)
    measured = msgspec.structs.replace(whole.metrics or Metrics(sampled_at=NOW), **(metrics or {}))
    return msgspec.structs.replace(whole, metrics=measured, window=window(**(over or {})))


def log(text: str, pod: str = "train-0", namespace: str = "research") -> tuple[LogSignal, ...]:
    return signals_in(text, namespace=namespace, pod=pod, container="main")


def on_node(text: str, name: str = "gpu-1", **fields: Any) -> tuple[LogSignal, ...]:
    """As a message about the node quotes it."""
    told = signals_in(text, namespace="", pod="", container="")
    return tuple(msgspec.structs.replace(s, words=s.words | {"node": name}, **fields) for s in told)


def diagnosed(*parts: Any, **fields: Any) -> Diagnosis:
    nodes = () if any(isinstance(p, Node) for p in parts) else (node(),)
    outcome = engine.run(RULES, snapshot(*nodes, *parts, **fields), Limits())
    assert outcome.failed == ()
    return outcome


def found(slug: str, *parts: Any, **fields: Any) -> list[Finding]:
    return [f for f in diagnosed(*parts, **fields).findings if f.slug == slug]


def unjudged(code: str, *parts: Any, **fields: Any) -> list[str]:
    return [u.subject.name for u in diagnosed(*parts, **fields).unjudged if u.code == code]


def facts(finding: Finding) -> str:
    return "\n".join(f"{e.label}: {e.value}" for e in finding.evidence)
