"""Volumes and what they come from, cut down to what tells why a pod's volume is not there.

Each list is None where it could not be read: "no such claim" can only be said of a list that was read.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from diagnostics.snapshot.kubernetes import Struct


class VolumeClaim(Struct, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    uid: str = ""
    created_at: datetime | None = None
    phase: str = ""
    """Pending, Bound or Lost."""
    storage_class: str | None = None
    """None: the cluster's default; empty: no class, so that only a volume without one fits."""
    volume: str = ""
    access_modes: tuple[str, ...] = ()
    requested_bytes: float | None = None
    provisioner: str = ""
    """Who was asked to make the volume (annotation of the volume controller); empty before that."""
    selected_node: str = ""
    """The node for which the scheduler has asked for a volume (WaitForFirstConsumer)."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class PersistentVolume(Struct, frozen=True, kw_only=True):
    """A PersistentVolume that a kept claim is bound to, or that nobody has claimed yet."""

    name: str
    phase: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    capacity_bytes: float | None = None
    claim: str = ""
    """`namespace/name` of the claim that it is for."""
    node_terms: tuple[dict[str, Any], ...] = ()
    """nodeSelectorTerms of its required node affinity: alternatives; empty: every node reaches it."""


class StorageClass(Struct, frozen=True, kw_only=True):
    name: str
    provisioner: str = ""
    binding_mode: str = "Immediate"
    """Immediate, or WaitForFirstConsumer."""
    is_default: bool = False

    @property
    def is_static(self) -> bool:
        """Makes no volumes: somebody must (`kubernetes.io/no-provisioner`)."""
        return self.provisioner == "kubernetes.io/no-provisioner"


class Storage(Struct, frozen=True, kw_only=True):
    """What was read of volumes; claims of namespaces with GPU pods alone."""

    claims: tuple[VolumeClaim, ...] | None = None
    volumes: tuple[PersistentVolume, ...] | None = None
    classes: tuple[StorageClass, ...] | None = None

    @cached_property
    def claim_by_key(self) -> Mapping[str, VolumeClaim]:
        return {claim.key: claim for claim in self.claims or ()}

    @cached_property
    def volume_by_name(self) -> Mapping[str, PersistentVolume]:
        return {volume.name: volume for volume in self.volumes or ()}

    @cached_property
    def class_by_name(self) -> Mapping[str, StorageClass]:
        return {one.name: one for one in self.classes or ()}
