"""Kernel lines that node events and node conditions quote, as signals: node-problem-detector and its like. Pure."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from diagnostics.signatures import signals_in
from diagnostics.snapshot import Event, LogSignal, Node

NODE = "node"
"""Word of such a signal: the node that it is about. It belongs to no pod."""
MOST_MESSAGES = 500
"""Looked at, the newest."""
_NEEDLES = ("NVRM", "Xid", "fallen off", "device handle", "GPU", "nvidia")


def node_signals(nodes: Iterable[Node], events: Iterable[Event]) -> tuple[LogSignal, ...]:
    """The signals in messages about nodes, the oldest first, each with the time and the node of its message."""
    told = sorted(
        _messages(nodes, events), key=lambda m: (m[1] is not None, m[1].timestamp() if m[1] else 0.0)
    )
    return tuple(
        msgspec.structs.replace(signal, words=signal.words | {NODE: node}, at=signal.at or at)
        for node, at, text in told[-MOST_MESSAGES:]
        for signal in signals_in(text, namespace="", pod="", container="")
    )


def _messages(nodes: Iterable[Node], events: Iterable[Event]) -> Iterator[tuple[str, datetime | None, str]]:
    for event in events:
        if event.kind == "Node" and any(needle in event.message for needle in _NEEDLES):
            yield event.name, event.last_at, event.message
    for node in nodes:
        for condition in node.conditions:
            if condition.status == "True" and any(needle in condition.message for needle in _NEEDLES):
                yield node.name, condition.since, condition.message
