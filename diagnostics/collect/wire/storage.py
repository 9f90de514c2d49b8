"""Volume claims, volumes and storage classes on the wire."""

from typing import Any

import msgspec

from diagnostics.collect.wire.metadata import Amounts, MetaWire, Parts, Wire
from diagnostics.snapshot.storage import PersistentVolume, StorageClass, VolumeClaim

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_PROVISIONERS = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Where claims and volumes named their class before the field."""
_DEFAULTS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MOST_TERMS = 50


class _Resources(Wire):
    requests: Amounts | None = None


class _ClaimSpec(Wire):
    access_modes: tuple[str, ...] | None = None
    resources: _Resources | None = None
    volume_name: str | None = None
    storage_class_name: str | None = None


class _Phase(Wire):
    phase: str | None = None


class ClaimWire(Wire):
    metadata: MetaWire
    spec: _ClaimSpec
    status: _Phase = msgspec.field(default_factory=_Phase)


class _Terms(Wire):
    node_selector_terms: tuple[dict[str, Any], ...] | None = None


class _NodeAffinity(Wire):
    required: _Terms | None = None


class _ClaimRef(Wire):
    name: str = ""
    namespace: str = ""


class _VolumeSpec(Wire):
    capacity: Amounts | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: _ClaimRef | None = None
    storage_class_name: str | None = None
    node_affinity: _NodeAffinity | None = None


class VolumeWire(Wire):
    metadata: MetaWire
    spec: _VolumeSpec
    status: _Phase = msgspec.field(default_factory=_Phase)


class ClassWire(Wire):
    """A storage class has no spec."""

    metadata: MetaWire
    provisioner: str = ""
    volume_binding_mode: str | None = None


class ClaimConverter:
    """Converts the claims of one list."""

    def __init__(self) -> None:
        self._parts = Parts()

    def __call__(self, wire: ClaimWire) -> VolumeClaim:
        meta, spec, parts = wire.metadata, wire.spec, self._parts
        noted = meta.annotations or {}
        asked = spec.resources.requests if spec.resources else None
        named = spec.storage_class_name
        return VolumeClaim(
            namespace=parts.text(meta.namespace),
            name=meta.name,
            uid=meta.uid or "",
            created_at=meta.creation_timestamp,
            phase=parts.text(wire.status.phase),
            storage_class=noted.get(_CLASS_ANNOTATION) if named is None else parts.text(named),
            volume=spec.volume_name or "",
            access_modes=spec.access_modes or (),
            requested_bytes=parts.amounts(asked).get("storage"),
            provisioner=parts.text(next((noted[name] for name in _PROVISIONERS if name in noted), "")),
            selected_node=parts.text(noted.get(_SELECTED_NODE)),
        )


class VolumeConverter:
    """Converts the volumes of one list."""

    def __init__(self) -> None:
        self._parts = Parts()

    def __call__(self, wire: VolumeWire) -> PersistentVolume:
        spec, parts = wire.spec, self._parts
        required = spec.node_affinity.required if spec.node_affinity else None
        noted = wire.metadata.annotations or {}
        return PersistentVolume(
            name=wire.metadata.name,
            phase=parts.text(wire.status.phase),
            storage_class=parts.text(spec.storage_class_name or noted.get(_CLASS_ANNOTATION)),
            access_modes=spec.access_modes or (),
            capacity_bytes=parts.amounts(spec.capacity).get("storage"),
            claim=f"{spec.claim_ref.namespace}/{spec.claim_ref.name}" if spec.claim_ref else "",
            node_terms=((required.node_selector_terms if required else None) or ())[:_MOST_TERMS],
        )


def storage_class(wire: ClassWire) -> StorageClass:
    noted = wire.metadata.annotations or {}
    return StorageClass(
        name=wire.metadata.name,
        provisioner=wire.provisioner,
        binding_mode=wire.volume_binding_mode or "Immediate",
        is_default=any(noted.get(name) == "true" for name in _DEFAULTS),
    )
