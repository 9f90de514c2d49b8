"""Which operator containers are read: failing ones, and those that know why their node is not well; bounded."""

from datetime import timedelta
from typing import Any

from diagnostics.collect.operator_logs import MOST_OF_NODE, MOST_PODS, operator_containers
from diagnostics.snapshot import Container, Node, Pod
from tests.builders import NOW, ago, node
from tests.rules.stack.operator_pods import component, crashing, pulling, ready, waiting_in_init, well

DRIVER, PLUGIN, MANAGER = "nvidia-driver-daemonset", "nvidia-device-plugin-daemonset", "nvidia-mig-manager"


def chosen(*pods: Pod, nodes: tuple[Node, ...] = (node(),)) -> dict[str, set[str]]:
    return {pod.name: set(names) for pod, names in operator_containers(pods, nodes, NOW)}


def test_a_crashing_container_is_read_and_its_neighbours_are_not() -> None:
    pod = component(DRIVER, ready("k8s-driver-manager"), crashing("nvidia-driver-ctr"))
    assert chosen(pod) == {pod.name: {"nvidia-driver-ctr"}}


def test_an_init_container_that_does_not_end_is_read() -> None:
    pod = component(DRIVER, waiting_in_init("k8s-driver-manager"))
    assert chosen(pod) == {pod.name: {"k8s-driver-manager"}}


def test_what_is_well_young_or_has_no_log_is_not_read() -> None:
    young = component(DRIVER, crashing("nvidia-driver-ctr"), created_at=NOW - timedelta(minutes=1))
    other = component("web", crashing("web"))
    assert chosen(well(DRIVER, "x"), component(DRIVER, pulling("x")), young, other) == {}


def test_a_container_between_two_crashes_is_read() -> None:
    flapping = crashing("nvidia-device-plugin", state="running", waiting_reason="", is_ready=True)
    assert chosen(component(PLUGIN, flapping))


def test_a_ready_plugin_is_read_where_its_node_offers_nothing() -> None:
    plugin = well(PLUGIN, "nvidia-device-plugin")
    assert chosen(plugin) == {}
    assert chosen(plugin, nodes=(node(allocatable={"nvidia.com/gpu": 0.0}),)) == {
        plugin.name: {"nvidia-device-plugin"}
    }


def test_a_mig_manager_is_read_where_its_layout_is_not_there() -> None:
    manager = well(MANAGER, "nvidia-mig-manager")
    for state, read in (("failed", True), ("pending", True), ("success", False)):
        host = node(labels={"nvidia.com/mig.config.state": state})
        assert bool(chosen(manager, nodes=(host,))) is read


def test_of_many_nodes_each_has_its_first_component_read_before_any_has_its_second() -> None:
    def on(number: int, app: str) -> Pod:
        fields: dict[str, Any] = {"node": f"gpu-{number}", "name": f"{app}-{number:02d}"}
        return component(app, crashing("x"), **fields)

    apps = (DRIVER, PLUGIN, MANAGER, "nvidia-dcgm-exporter")
    many = [on(i, app) for i in range(40) for app in apps]
    found = operator_containers(many, [], NOW)
    assert len(found) == MOST_PODS
    assert {pod.labels["app"] for pod, _ in found} == {DRIVER}
    few = operator_containers(many[: len(apps)], [], NOW)
    assert len(few) == MOST_OF_NODE


def test_a_finished_or_deleted_pod_is_not_read() -> None:
    done = component("nvidia-cuda-validator", crashing("x"), phase="Succeeded")
    gone = component(DRIVER, crashing("x"), deletion_at=ago(minutes=1))
    assert chosen(done, gone, component(DRIVER, Container(name="x"), node=None)) == {}
