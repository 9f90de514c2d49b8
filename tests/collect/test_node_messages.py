"""Kernel lines in messages about nodes become signals with their node and time."""

import pytest

from diagnostics.collect.node_messages import node_signals
from diagnostics.collect.operator_logs import is_short, operator_containers
from diagnostics.snapshot import Condition
from tests.builders import NOW, ago, event, node, pod

XID = "NVRM: Xid (PCI:0000:0f:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def test_an_event_of_a_node_is_read() -> None:
    (signal,) = node_signals(
        [], [event("XidError", XID, "gpu-1", kind="Node", namespace="", last_at=ago(minutes=3))]
    )
    assert (signal.signal, signal.numbers["xid_code"]) == ("xid", 79)
    assert (signal.words["node"], signal.at, signal.pod) == ("gpu-1", ago(minutes=3), "")


@pytest.mark.parametrize(("status", "count"), [("True", 1), ("False", 0)])
def test_a_condition_is_read_while_it_holds(status: str, count: int) -> None:
    told = Condition("XIDErrors", status, "XidFound", XID, ago(minutes=9))
    assert len(node_signals([node(conditions=(told,))], [])) == count


def test_an_event_of_a_pod_and_one_without_words_of_the_kernel_are_not_read() -> None:
    assert (
        node_signals([], [event("Failed", XID), event("NodeReady", "Node is ready", "gpu-1", kind="Node")])
        == ()
    )


def test_a_node_that_offers_less_than_it_has_is_short() -> None:
    assert is_short(node(allocatable={"nvidia.com/gpu": 7.0}))
    assert is_short(node(capacity={"nvidia.com/gpu": 7.0}, allocatable={"nvidia.com/gpu": 7.0}))
    assert not is_short(node())
    assert not is_short(node(gpus=0))
    shared = {"nvidia.com/gpu": 32.0}
    assert not is_short(node(capacity=shared, allocatable=shared, labels={"nvidia.com/gpu.replicas": "4"}))


def test_the_plugin_of_a_short_node_is_read() -> None:
    labels = {"app": "nvidia-device-plugin-daemonset"}
    plugins = [pod(f"plugin-{n}", "gpu-operator", 0, node=f"gpu-{n}", labels=labels) for n in (1, 2)]
    nodes = [node("gpu-1", allocatable={"nvidia.com/gpu": 7.0}), node("gpu-2")]
    assert operator_containers([*plugins, pod()], nodes, NOW) == [(plugins[0], frozenset({"main"}))]
