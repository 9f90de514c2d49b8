"""Who owned a pod of the past: by kube-state-metrics, by what is known of the cluster now, or by the pod's name. Pure.

Kubernetes ends the names of a Deployment's pods in `-<template hash>-<5 letters>`, both of an alphabet without vowels
(`k8s.io/apimachinery/pkg/util/rand`), and those of a CronJob's Jobs in the minutes since 1970.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from diagnostics.snapshot import OwnerKey, Pod, Workload

_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
_OF_DEPLOYMENT = re.compile(rf"(.+)-({_SAFE}{{8,10}})-{_SAFE}{{5}}")
_REPLICA_SET = re.compile(rf"(.+)-({_SAFE}{{8,10}})")
_TIMED_JOB = re.compile(r"(.+)-\d{8,10}")
_REST = re.compile(rf"(-\d{{1,10}})?(-{_SAFE}{{5,10}})?(-{_SAFE}{{5}})?")
"""What controllers add to their own name: an index or a minute, a hash, five letters."""
NamedKey = tuple[str, str, str]
"""Kind, namespace and name."""


class Known(msgspec.Struct, frozen=True):
    """What is known of owners from elsewhere than the span that is read."""

    pods: Mapping[str, OwnerKey] = {}
    """`namespace/name` of pods that polls have seen -> their root owner."""
    by_uid: Mapping[str, OwnerKey] = {}
    """The same of those whose UID is known: the very pod, not another of its name."""
    roots: Mapping[str, tuple[OwnerKey, ...]] = {}
    """Namespace -> root owners that polls have seen there."""


def chain(
    replica_sets: Iterable[Mapping[str, str]], jobs: Iterable[Mapping[str, str]]
) -> tuple[Workload, ...]:
    """The owners of ReplicaSets and of Jobs (labels of `kube_replicaset_owner` and `kube_job_owner`)."""
    found: dict[NamedKey, Workload] = {}
    for kind, label, every in (("ReplicaSet", "replicaset", replica_sets), ("Job", "job_name", jobs)):
        for labels in every:
            namespace = labels.get("exported_namespace") or labels.get("namespace", "")
            name, owner = labels.get(label, ""), owner_in(labels, namespace)
            if name and owner is not None:
                found[kind, namespace, name] = Workload(
                    kind=kind, namespace=namespace, name=name, owners=(owner,)
                )
    return tuple(found.values())


def owner_in(labels: Mapping[str, str], namespace: str) -> OwnerKey | None:
    """The owner that `owner_kind` and `owner_name` tell; None where there is none."""
    kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
    if not kind or not name or "<none>" in (kind, name):
        return None
    return OwnerKey(kind, namespace, name)


def owned(pods: tuple[Pod, ...], known: Known, workloads: tuple[Workload, ...]) -> tuple[Pod, ...]:
    """Each pod with an owner: the root that a poll saw, else what is told of that time, or what a name gives away."""
    chained = {(w.kind, w.namespace, w.name) for w in workloads}
    found = []
    for pod in pods:
        owner = known.by_uid.get(pod.uid) if pod.uid else None
        if owner is None:
            owner = pod.owners[0] if pod.owners else by_name(pod.namespace, pod.name, known)
        if owner is not None and (owner.kind, owner.namespace, owner.name) not in chained:
            owner = above(owner, known)
        is_told = owner is not None and owner.kind != "Pod"
        found.append(msgspec.structs.replace(pod, owners=(owner,)) if is_told else pod)
    return tuple(found)


def by_name(namespace: str, name: str, known: Known) -> OwnerKey | None:
    """The root owner of a pod of which only the name is known; None for a pod that may well be bare."""
    seen = known.pods.get(f"{namespace}/{name}")
    if seen is not None:
        return seen
    fitting = [root for root in known.roots.get(namespace, ()) if _fits(root, name)]
    if fitting:
        return max(fitting, key=lambda root: len(root.name))
    deployment = _OF_DEPLOYMENT.fullmatch(name)
    return OwnerKey("Deployment", namespace, deployment[1], "apps/v1") if deployment else None


def above(owner: OwnerKey, known: Known) -> OwnerKey:
    """What is behind an owner of which nothing is known but the name; the owner itself where that says nothing.

    A ReplicaSet's name tells of its Deployment. A Job's may end in a date for any reason: it is a CronJob's only where
    polls have seen a CronJob of that name.
    """
    if owner.kind == "ReplicaSet" and (deployment := _REPLICA_SET.fullmatch(owner.name)):
        return OwnerKey("Deployment", owner.namespace, deployment[1], "apps/v1")
    if owner.kind == "Job" and (timed := _TIMED_JOB.fullmatch(owner.name)):
        roots = known.roots.get(owner.namespace, ())
        return next((root for root in roots if (root.kind, root.name) == ("CronJob", timed[1])), owner)
    return owner


def _fits(root: OwnerKey, name: str) -> bool:
    if root.kind == "Pod":
        return root.name == name
    rest = name.removeprefix(root.name)
    return rest != name and bool(rest) and _REST.fullmatch(rest) is not None
