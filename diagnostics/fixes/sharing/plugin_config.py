"""Time-slicing and MPS: the device plugin's configuration, and the node label that selects it.

Sources: k8s-device-plugin, configuration file version v1 (`sharing.timeSlicing`, `sharing.mps`); GPU Operator,
"Time-Slicing GPUs" (`devicePlugin.config` of the ClusterPolicy, node label `nvidia.com/device-plugin.config`).
"""

from typing import Any

from diagnostics.fixes import Risk, Step, StepKind, kubectl, manifests, mildest_first, steps
from diagnostics.fixes.sharing.ways import ISOLATION, Way, back, emptied, is_of_a_cloud, label
from diagnostics.mig_profiles import profile_in
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.snapshot import Node, OperatorResource, Snapshot
from diagnostics.text import counted, printable

LABEL = "nvidia.com/device-plugin.config"
CONFIG_MAP = "device-plugin-config"
WHOLE = "nvidia.com/gpu"
_NEUTRAL = {"version": "v1"}
"""For nodes without the label: the plugin's own chart gives them the only entry there is, unless one is `default`."""


def time_slicing(
    node: Node, resource: str, shares: int, snapshot: Snapshot, *, renamed: bool = False
) -> tuple[Step, ...]:
    """Steps after which each `resource` of `node` is offered `shares` times. `renamed`: as `<resource>.shared`.

    Nothing for a resource that the plugin cannot share: it shares whole GPUs and the slices of strategy mixed.
    """
    profile = profile_in(resource)
    if resource != WHOLE and (profile is None or resource != f"nvidia.com/mig-{profile}"):
        return ()
    shared = {"failRequestsGreaterThanOne": True, "resources": [{"name": resource, "replicas": shares}]}
    body = {"sharing": {"timeSlicing": {"renameByDefault": True, **shared} if renamed else shared}}
    return _steps(node, Way.TIME_SLICING, resource, shares, body, snapshot, renamed=renamed)


def mps(node: Node, shares: int, snapshot: Snapshot, *, renamed: bool = False) -> tuple[Step, ...]:
    """Steps after which each GPU of `node` is offered `shares` times, each with that part of memory and compute."""
    shared: dict[str, Any] = {"resources": [{"name": WHOLE, "replicas": shares}]}
    body = {"sharing": {"mps": {"renameByDefault": True, **shared} if renamed else shared}}
    return _steps(node, Way.MPS, WHOLE, shares, body, snapshot, renamed=renamed)


def unshared(node: Node) -> tuple[Step, ...]:
    """The node goes back to the plugin's default; nothing where no label of it selects what it has."""
    if LABEL not in node.labels:
        return ()
    return (
        Step(
            kind=StepKind.FIX,
            title=f"End the sharing by the device plugin on node {printable(node.name, 120)}",
            why=f"Under strategy single it would share each instance once more. The entry that the node has now is "
            f"{printable(node.labels[LABEL], 80)}. Where the default shares as well, name an entry that does not.",
            risk=Risk.DISRUPTIVE,
            command=kubectl.kubectl("label", "node", *kubectl.named(node.name), f"{LABEL}-"),
            expect="The node offers each GPU once.",
        ),
    )


def _steps(
    node: Node,
    way: Way,
    resource: str,
    shares: int,
    body: dict[str, Any],
    snapshot: Snapshot,
    *,
    renamed: bool,
) -> tuple[Step, ...]:
    if is_of_a_cloud(node):
        return (_of_node_pool(node, way, shares),)
    key = f"{way}-{shares}" + ("" if resource == WHOLE else f"-{resource.removeprefix('nvidia.com/')}")
    key += "-shared" if renamed else ""
    offered = f"{resource}.shared" if renamed else resource
    suffix = (
        "" if renamed else " Feature discovery adds -SHARED to the product label: selectors must allow it."
    )
    more = f" Each client may use 1/{shares} of the memory." if way is Way.MPS else ""
    if way is Way.TIME_SLICING and resource == WHOLE:
        more = " `mps` in place of `timeSlicing`, without failRequestsGreaterThanOne, would hold each to its part."
    name = printable(node.name, 120)
    return mildest_first(
        *_written(key, manifests.to_yaml({"version": "v1", **body}), snapshot),
        *emptied(node, snapshot),
        Step(
            kind=StepKind.FIX,
            title=f"Share the GPUs of node {name} by {way}: {counted(shares, 'pod')} on each",
            why=f"{ISOLATION[way]}{more} The label concerns all GPUs of this node, and the plugin there starts anew "
            f"with it: the node offers no GPU for that moment.{suffix} `{LABEL}-` takes it back.",
            risk=Risk.DISRUPTIVE,
            command=label(node, LABEL, key),
            expect=f"The node's allocatable {offered} is {shares} times its GPUs. A pod asks for 1.",
        ),
        *back(node),
    )


def _written(key: str, text: str, snapshot: Snapshot) -> tuple[Step, ...]:
    """The configuration as an entry of the plugin's ConfigMap; where it has none, one that is then named."""
    policy = next(
        (r for r in snapshot.operator_resources if r.kind == "ClusterPolicy" and r.state != "ignored"), None
    )
    namespace = _namespace(snapshot)
    why = "Nothing changes by it: a node uses an entry only when its label names it."
    known = policy.settings.get("devicePlugin.config.name", "") if policy is not None else ""
    if known:
        body = manifests.to_json({"data": {key: text}})
        command = kubectl.kubectl(
            "patch", "configmap", "-n", namespace, "--type=merge", "-p", body, *kubectl.named(known)
        )
        return (
            Step(
                kind=StepKind.FIX,
                title=f"Add the entry {key} to the device plugin's ConfigMap {printable(known, 120)}",
                why=why,
                risk=Risk.SAFE,
                command=command,
                expect=f"The ConfigMap has {key} beside the entries that it had.",
            ),
        )
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace},
        "data": {
            "default": manifests.Lines(manifests.to_yaml(_NEUTRAL)),
            key: manifests.Lines(text),
        },
    }
    return (
        Step(
            kind=StepKind.FIX,
            title=f"Create the ConfigMap {CONFIG_MAP} for the device plugin",
            why=f"{why} `default` is for the nodes without the label, and changes nothing for them. Where the plugin "
            "has a ConfigMap already, add the entry to that one instead.",
            risk=Risk.SAFE,
            manifest=manifests.to_yaml(document),
            expect=f"`kubectl get configmap -n {namespace} {CONFIG_MAP}` shows two entries.",
        ),
        _named(policy),
    )


def _named(policy: OperatorResource | None) -> Step:
    """The plugin is told of the ConfigMap: by the operator's resource, else by its own chart."""
    config = {"devicePlugin": {"config": {"name": CONFIG_MAP, "default": ""}}}
    command = ""
    if policy is not None:
        body = manifests.to_json({"spec": config})
        command = kubectl.kubectl(
            "patch", "clusterpolicies.nvidia.com", "--type=merge", "-p", body, *kubectl.named(policy.name)
        )
    how = "" if command else " With the plugin's own chart it is the value config.name."
    return Step(
        kind=StepKind.FIX,
        title="Tell the device plugin of the ConfigMap",
        why=f"A ConfigMap alone does nothing.{how} The plugin's pods are replaced on every GPU node, once: running "
        "pods keep their GPUs, a node offers none until its new plugin pod is ready. Choose a quiet hour.",
        risk=Risk.DISRUPTIVE,
        command=command,
        expect="The plugin's pods are Running, now with a config-manager; the nodes offer what they did.",
    )


def _namespace(snapshot: Snapshot) -> str:
    """Where the device plugin runs."""
    plugins = (p for p in snapshot.pods if COMPONENTS.get(component_label(p) or "") == "device plugin")
    return next((p.namespace for p in plugins if not p.is_finished), steps.OPERATOR_NAMESPACE)


def _of_node_pool(node: Node, way: Way, shares: int) -> Step:
    strategy = "mps" if way is Way.MPS else "time-sharing"
    return steps.escalate(
        f"whoever runs the node pool of {printable(node.name, 120)}",
        why=f"{ISOLATION[way]} Here the cloud runs the device plugin, and sharing is a setting of a node pool: "
        f"gpu-sharing-strategy={strategy}, max-shared-clients-per-gpu={shares}. A pool is made anew for it.",
        expect=f"A pool whose nodes offer {shares} times their GPUs.",
    )
