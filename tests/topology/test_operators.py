"""Pods of the GPU stack that restarted."""

from typing import Any

import pytest

from diagnostics.snapshot import Pod, Source
from tests.builders import ago, container, gpu, node, owner, pod
from tests.topology.timeline import Polls

pytestmark = pytest.mark.django_db

NODE = node(gpus=1)
PLUGIN = "nvidia-device-plugin-daemonset"


def plugin(name: str = "plugin-a", restarts: int = 0, **fields: Any) -> Pod:
    defaults: dict[str, Any] = {
        "labels": {"app": PLUGIN},
        "owners": (owner("DaemonSet", PLUGIN, "gpu-operator"),),
        "containers": (container(gpus=0, restarts=restarts),),
        "namespace": "gpu-operator",
    }
    return pod(name, **(defaults | fields))


def changes(*polls_of_pods: list[Pod], **fields: Any) -> list[tuple[str, str, str, str]]:
    polls = Polls()
    for pods in polls_of_pods:
        polls.poll(NODE, gpu(0), *pods, **fields)
    return polls.changes()


def test_a_restarted_container_is_a_change() -> None:
    assert changes([plugin()], [plugin(restarts=1)], [plugin(restarts=1)]) == [
        (
            "operator pod restarted",
            f"{PLUGIN} on gpu-1",
            "gpu-operator/plugin-a, 0 restarts",
            "gpu-operator/plugin-a, 1 restart",
        )
    ]


def test_a_new_pod_in_its_place_is_a_change_also_after_a_while() -> None:
    found = changes([plugin()], [], [plugin("plugin-b")])

    assert [(kind, before, after) for kind, _, before, after in found] == [
        ("operator pod restarted", "gpu-operator/plugin-a, 0 restarts", "gpu-operator/plugin-b, 0 restarts")
    ]


def test_a_roll_out_is_one_change() -> None:
    going = plugin(deletion_at=ago(minutes=0))
    young = plugin("plugin-b", created_at=ago(minutes=1))

    assert len(changes([plugin()], [going, young], [young, going], [young])) == 1


def test_the_first_pod_of_a_component_is_no_restart() -> None:
    assert changes([], [plugin(restarts=7)]) == []


@pytest.mark.parametrize(
    "other",
    [
        {"labels": {"app": "web"}},
        {"owners": ()},
        {"owners": (owner("ReplicaSet", "gpu-operator"),)},
        {"node": "cpu-1"},
        {"phase": "Failed"},
    ],
    ids=["not of the stack", "bare", "controller", "elsewhere", "finished"],
)
def test_other_pods_do_not_count(other: dict[str, Any]) -> None:
    assert changes([plugin(**other)], [plugin(**(other | {"uid": "new"}))]) == []


def test_nothing_is_said_while_pods_are_missing() -> None:
    assert changes([plugin()], [plugin("plugin-b")], without=[Source.PODS]) == []


def test_a_node_created_anew_has_new_pods_without_a_word() -> None:
    polls = Polls()
    polls.poll(NODE, gpu(0), plugin())
    polls.poll(node(gpus=1, uid="other"), gpu(0), plugin("plugin-b"))
    polls.poll(node(gpus=1, uid="other"), gpu(0), plugin("plugin-b"))

    assert polls.kinds() == ["node re-created"]
