"""The pods of one node: those that make its GPUs usable, one by one, and the others by namespace."""

from collections import Counter
from dataclasses import dataclass

from django.conf import settings

from diagnostics.operator_components import COMPONENTS, ORDER, component_label, is_component_of_node
from diagnostics.picture import PodLine
from diagnostics.picture.drawing import PODS_IN_PART, doubt_of, pod_line
from diagnostics.snapshot import Pod, Snapshot, Source

STACK_SHOWN = 40
NAMESPACES_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class StackPod:
    """A pod of the GPU stack."""

    component: str
    """`device plugin`."""
    namespace: str
    pod: PodLine


@dataclass(frozen=True, kw_only=True)
class NodePods:
    stack: tuple[StackPod, ...]
    """In the order in which they wait for each other."""
    more: int
    """Pods of the stack beyond those."""
    others: int
    """Unfinished pods beside the stack."""
    with_gpus: int
    """Of these, those that ask for GPUs."""
    not_ready: int
    """Of these, those that are not ready."""
    namespaces: tuple[tuple[str, int], ...]
    """(namespace, unfinished pods beside the stack), those with most first."""
    more_namespaces: int
    why_not: str
    """Why pods may be missing; empty when all were read."""


def pods_on(snapshot: Snapshot, node: str) -> NodePods:
    """Of a snapshot that holds at least this node's pods."""
    stack: list[tuple[str, Pod]] = []
    others: list[Pod] = []
    for pod in snapshot.pods_by_node.get(node, ()):
        label = component_label(pod)
        if label is not None and is_component_of_node(pod):
            stack.append((label, pod))
        elif not pod.is_finished:
            others.append(pod)
    stack.sort(key=lambda one: (ORDER[one[0]], one[1].is_finished, one[1].key))
    namespaces = Counter(pod.namespace for pod in others)
    shown = sorted(namespaces.items(), key=lambda one: (-one[1], one[0]))[:NAMESPACES_SHOWN]
    return NodePods(
        stack=tuple(
            StackPod(
                component=COMPONENTS[label],
                namespace=pod.namespace,
                pod=pod_line(pod, snapshot, settings.LIMITS),
            )
            for label, pod in stack[:STACK_SHOWN]
        ),
        more=max(0, len(stack) - STACK_SHOWN),
        others=len(others),
        with_gpus=sum(bool(pod.gpus or pod.resource_claims) for pod in others),
        not_ready=sum(not pod.is_ready for pod in others),
        namespaces=tuple(shown),
        more_namespaces=len(namespaces) - len(shown),
        why_not=doubt_of(snapshot, Source.PODS, PODS_IN_PART),
    )
