"""Jobs of operators (PyTorchJob, JobSet, LeaderWorkerSet, RayCluster, Volcano's Job and their like) as workloads."""

from typing import Any

import msgspec

from diagnostics.collect.wire.metadata import ConditionWire, Memo, MetaWire, Parts, Wire
from diagnostics.gangs import pods_wanted, roles_of
from diagnostics.masking import mask_text, mask_tree
from diagnostics.snapshot import Workload


class _RunPolicy(Wire):
    suspend: bool | None = None


class _Spec(Wire):
    suspend: bool | None = None
    run_policy: _RunPolicy | None = None


class _Status(Wire):
    conditions: tuple[ConditionWire, ...] | None = None


class CustomWorkloadWire(Wire):
    metadata: MetaWire
    spec: msgspec.Raw
    status: _Status | None = None


_spec_decoder = msgspec.json.Decoder(_Spec)
_tree_decoder = msgspec.json.Decoder(dict[str, Any])


class CustomWorkloadConverter:
    """Converts the objects of one list, whose kind and version are those of the list."""

    def __init__(self, kind: str, api_version: str) -> None:
        self._kind = kind
        self._api_version = api_version
        self._parts = Parts()
        self._strings = Memo(mask_text)

    def __call__(self, wire: CustomWorkloadWire) -> Workload:
        """The spec is kept, masked, where one of its pod templates asks for GPUs."""
        meta, parts = wire.metadata, self._parts
        spec, tree = _spec_decoder.decode(wire.spec), _tree_decoder.decode(wire.spec)
        roles = roles_of(self._kind, self._api_version, tree)
        masked: dict[str, Any] = mask_tree(tree, mask=self._strings.__getitem__)
        return Workload(
            kind=self._kind,
            namespace=parts.text(meta.namespace),
            name=meta.name,
            api_version=self._api_version,
            uid=meta.uid or "",
            created_at=meta.creation_timestamp,
            labels=parts.labels(meta.labels),
            annotations=parts.annotations(meta.annotations),
            owners=parts.owners(meta.owner_references, meta.namespace),
            replicas=pods_wanted(self._kind, self._api_version, tree),
            is_suspended=bool(spec.suspend or (spec.run_policy is not None and spec.run_policy.suspend)),
            conditions=parts.conditions(wire.status.conditions if wire.status else None),
            spec=masked if any(role.asks_for_gpus for role in roles) else {},
        )
