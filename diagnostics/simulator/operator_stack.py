"""The GPU Operator's DaemonSets: one pod of each on every node, and how a broken one holds up the others."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from diagnostics.simulator import lifecycle
from diagnostics.simulator.devices import DRIVER, SimNode
from diagnostics.simulator.timestamps import DAY, seconds
from diagnostics.simulator.workloads import TOLERATES_GPU, Json, PodState, PodTemplate, Workload, container
from diagnostics.simulator.world import World

NAMESPACE = "gpu-operator"
VALIDATOR_IMAGE = "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v24.9.2"
PLUGIN_IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0-ubi9"
DRIVER_IMAGE = f"nvcr.io/nvidia/driver:{DRIVER}-ubuntu22.04"
WAIT = (
    "until [ -f /run/nvidia/validations/toolkit-ready ]; do "
    "echo waiting for nvidia container stack to be setup; sleep 5; done"
)


_PRIVILEGED: Json = {"securityContext": {"privileged": True}}


@dataclass(frozen=True)
class Component:
    """One DaemonSet; pods of the GPU Operator carry its name as the label `app`."""

    name: str
    switch: str
    """The node label `nvidia.com/gpu.deploy.<switch>` lets it run there."""
    app: Json
    inits: tuple[Json, ...]
    waits_for: str
    """`driver` or `toolkit`: what its first init container waits for; empty: for nothing."""


def _app(name: str, image: str, *env: tuple[str, str], **more: Any) -> Json:
    if env:
        more["env"] = [{"name": k, "value": v} for k, v in env]
    return container(name, image, command=["/bin/bash", "-c"], args=["/bin/entrypoint.sh"], **more)


def _validation(component: str) -> Json:
    return container(
        f"{component}-validation",
        VALIDATOR_IMAGE,
        command=["sh", "-c"],
        args=["nvidia-validator"],
        env=[{"name": "COMPONENT", "value": component}],
        **_PRIVILEGED,
    )


_TOOLKIT_READY = container(
    "toolkit-validation",
    VALIDATOR_IMAGE,
    command=["sh", "-c"],
    args=[WAIT],
    **_PRIVILEGED,
)
_DRIVER_MANAGER = container(
    "k8s-driver-manager",
    "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.7.0",
    command=["driver-manager"],
    args=["uninstall_driver"],
    env=[{"name": "ENABLE_GPU_POD_EVICTION", "value": "true"}],
    **_PRIVILEGED,
)
_METRICS_PORT = [{"name": "metrics", "containerPort": 9400, "protocol": "TCP"}]

COMPONENTS = (
    Component(
        "nvidia-driver-daemonset",
        "driver",
        _app("nvidia-driver-ctr", DRIVER_IMAGE, **_PRIVILEGED),
        (_DRIVER_MANAGER,),
        "",
    ),
    Component(
        "nvidia-container-toolkit-daemonset",
        "container-toolkit",
        _app("nvidia-container-toolkit-ctr", "nvcr.io/nvidia/k8s/container-toolkit:v1.17.4-ubuntu20.04"),
        (_validation("driver"),),
        "driver",
    ),
    Component(
        "nvidia-operator-validator",
        "operator-validator",
        _app("nvidia-operator-validator", VALIDATOR_IMAGE),
        tuple(_validation(c) for c in ("driver", "toolkit", "cuda", "plugin")),
        "driver",
    ),
    Component(
        "nvidia-device-plugin-daemonset",
        "device-plugin",
        _app("nvidia-device-plugin", PLUGIN_IMAGE, ("MIG_STRATEGY", "mixed"), ("PASS_DEVICE_SPECS", "true")),
        (_TOOLKIT_READY,),
        "toolkit",
    ),
    Component(
        "nvidia-dcgm-exporter",
        "dcgm-exporter",
        _app(
            "nvidia-dcgm-exporter",
            "nvcr.io/nvidia/k8s/dcgm-exporter:3.3.9-3.6.1-ubuntu22.04",
            ("DCGM_EXPORTER_LISTEN", ":9400"),
            ("DCGM_EXPORTER_KUBERNETES", "true"),
            ports=_METRICS_PORT,
        ),
        (_TOOLKIT_READY,),
        "toolkit",
    ),
    Component(
        "gpu-feature-discovery",
        "gpu-feature-discovery",
        _app("gpu-feature-discovery", PLUGIN_IMAGE, ("GFD_SLEEP_INTERVAL", "60s"), ("MIG_STRATEGY", "mixed")),
        (_TOOLKIT_READY,),
        "toolkit",
    ),
    Component(
        "nvidia-mig-manager",
        "mig-manager",
        _app("nvidia-mig-manager", "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.10.0-ubuntu20.04"),
        (_TOOLKIT_READY,),
        "toolkit",
    ),
)
NFD_WORKER = "gpu-operator-node-feature-discovery-worker"
DRIVER_DS, TOOLKIT_DS, VALIDATOR_DS, PLUGIN_DS, EXPORTER_DS, GFD_DS, MIG_DS = (c.name for c in COMPONENTS)

# By the broken component: what others wait for in vain. The validator gets past the driver, not past the toolkit.
_STOPPED_BY = {DRIVER_DS: ("driver", "toolkit"), TOOLKIT_DS: ("driver", "toolkit")}


def deploy(world: World) -> None:
    """The DaemonSets with their pods, as each node's state has them; the operator itself on gpu-01."""
    for component in COMPONENTS:
        daemons = world.add("DaemonSet", f"{NAMESPACE}/{component.name}", _template(component), age=39 * DAY)
        daemons.replicas = len(world.nodes)
        for node in world.nodes.values():
            _place(world, daemons, component, node)
    nfd = PodTemplate(
        [
            container(
                "worker",
                "registry.k8s.io/nfd/node-feature-discovery:v0.16.6",
                memory="512Mi",
                cpu="5m",
                command=["nfd-worker"],
            )
        ],
        labels={"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"},
        tolerations=[{"operator": "Exists"}],
    )
    workers = world.add("DaemonSet", f"{NAMESPACE}/{NFD_WORKER}", nfd, age=39 * DAY)
    workers.replicas = len(world.nodes)
    for node in world.nodes.values():
        created = max(workers.created, node.created)
        world.place(workers, node.name, node.name, _lost(node, lifecycle.running(created)), created=created)
    operator = PodTemplate(
        [container("gpu-operator", "nvcr.io/nvidia/gpu-operator:v24.9.2", memory="350Mi", cpu="200m")],
        labels={"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"},
    )
    world.run(world.add("Deployment", f"{NAMESPACE}/gpu-operator", operator, age=39 * DAY), ["gpu-01"])


def hold_up(node: SimNode, broken: str, state: PodState, since: datetime) -> None:
    """One component of a node is broken, and those that wait for it never start."""
    node.stack[broken] = state
    node.stack_created[broken] = since
    for component in COMPONENTS:
        if component.name == broken or component.waits_for not in _STOPPED_BY[broken]:
            continue
        passed = broken == TOOLKIT_DS and component.waits_for == "driver"
        node.stack[component.name] = lifecycle.init_waiting(1 if passed else 0, since + seconds(4))
        node.stack_created[component.name] = since


def _place(world: World, daemons: Workload, component: Component, node: SimNode) -> None:
    created = node.stack_created.get(component.name, max(daemons.created, node.created))
    state = node.stack.get(component.name, lifecycle.running(created + seconds(9)))
    key = node.name if created == daemons.created else f"{node.name} {created:%d%H%M}"
    world.place(daemons, node.name, key, _lost(node, state), created=created)


def _lost(node: SimNode, state: PodState) -> PodState:
    """Nobody hears from a pod on a silent node: the node controller says that it is not ready."""
    return replace(state, is_ready=False, changed=node.lost_since) if node.lost_since else state


def _template(component: Component) -> PodTemplate:
    runtime = {"runtimeClassName": "nvidia"} if component.waits_for == "toolkit" else {"hostPID": True}
    return PodTemplate(
        containers=[component.app],
        init_containers=list(component.inits),
        labels={"app": component.name, "app.kubernetes.io/managed-by": "gpu-operator"}
        | ({"app.kubernetes.io/component": "nvidia-driver"} if component.name == DRIVER_DS else {}),
        node_selector={f"nvidia.com/gpu.deploy.{component.switch}": "true"},
        tolerations=[TOLERATES_GPU, {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        more={"priorityClassName": "system-node-critical"} | runtime,
    )
