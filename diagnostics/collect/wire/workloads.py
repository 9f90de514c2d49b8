"""Controllers of pods; their spec is kept, masked, where their pods ask for GPUs."""

from collections.abc import Iterator
from typing import Any

import msgspec

from diagnostics.collect.wire.metadata import ConditionWire, Memo, MetaWire, Parts, Wire
from diagnostics.collect.wire.pods import ResourcesWire
from diagnostics.masking import mask_text, mask_tree
from diagnostics.snapshot import GPU_RESOURCE_PREFIXES, Workload


class _TemplateContainer(Wire):
    resources: ResourcesWire | None = None


class _TemplateSpec(Wire):
    containers: list[_TemplateContainer] | None = None
    init_containers: list[_TemplateContainer] | None = None


class _Template(Wire):
    spec: _TemplateSpec | None = None


class _ControllerSpec(Wire):
    """The fields of every kind that is read; each kind has some of them."""

    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    template: _Template | None = None


class _JobTemplate(Wire):
    spec: _ControllerSpec | None = None


class _Spec(_ControllerSpec):
    job_template: _JobTemplate | None = None
    """A CronJob's."""


class _Status(Wire):
    ready_replicas: int | None = None
    ready: int | None = None
    number_ready: int | None = None
    desired_number_scheduled: int | None = None
    conditions: tuple[ConditionWire, ...] | None = None


class WorkloadWire(Wire):
    metadata: MetaWire
    spec: msgspec.Raw
    status: _Status


_spec_decoder = msgspec.json.Decoder(_Spec)


class WorkloadConverter:
    """Converts the objects of one list, whose kind and version are those of the list: items do not say."""

    def __init__(self, kind: str, api_version: str) -> None:
        self._kind = kind
        self._api_version = api_version
        self._parts = Parts()
        self._strings = Memo(mask_text)

    def __call__(self, wire: WorkloadWire) -> Workload:
        meta, status, parts = wire.metadata, wire.status, self._parts
        spec = _spec_decoder.decode(wire.spec)
        owners = parts.owners(meta.owner_references, meta.namespace)
        return Workload(
            kind=self._kind,
            namespace=parts.text(meta.namespace),
            name=meta.name,
            api_version=self._api_version,
            uid=meta.uid or "",
            created_at=meta.creation_timestamp,
            labels=parts.labels(meta.labels),
            annotations=parts.annotations(meta.annotations),
            owners=owners,
            replicas=self._wanted(spec, status),
            ready=self._ready(status),
            completions=spec.completions,
            is_indexed=spec.completion_mode == "Indexed",
            is_suspended=bool(spec.suspend),
            conditions=parts.conditions(status.conditions),
            # Old revisions of a Deployment are many, and nobody patches them.
            spec=self._masked(wire.spec)
            if _asks_for_gpus(spec) and not (owners and spec.replicas == 0)
            else {},
        )

    def _masked(self, raw: msgspec.Raw) -> dict[str, Any]:
        masked: dict[str, Any] = mask_tree(msgspec.json.decode(raw), mask=self._strings.__getitem__)
        return masked

    def _wanted(self, spec: _Spec, status: _Status) -> int | None:
        """The server fills in the default of 1 itself, so that a missing number is not known."""
        match self._kind:
            case "DaemonSet":
                return status.desired_number_scheduled
            case "Job":
                return spec.parallelism
        return spec.replicas

    def _ready(self, status: _Status) -> int | None:
        """Go leaves out a count of 0 where the field is `omitempty`, which `readyReplicas` is."""
        match self._kind:
            case "DaemonSet":
                return status.number_ready
            case "Job":
                return status.ready
            case "CronJob":
                return None
        return status.ready_replicas or 0


def _templates(spec: _Spec) -> Iterator[_TemplateSpec]:
    for holder in (spec, spec.job_template.spec if spec.job_template else None):
        if holder is not None and holder.template is not None and holder.template.spec is not None:
            yield holder.template.spec


def _asks_for_gpus(spec: _Spec) -> bool:
    return any(
        name.startswith(GPU_RESOURCE_PREFIXES)
        for template in _templates(spec)
        for container in (*(template.containers or ()), *(template.init_containers or ()))
        if container.resources is not None
        for name in (*(container.resources.limits or ()), *(container.resources.requests or ()))
    )
