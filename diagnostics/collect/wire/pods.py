"""Pods: spec and status of the wire joined into the snapshot's pods, with secrets masked on the way."""

from sys import intern
from typing import Any

import msgspec

from diagnostics.collect.wire.metadata import (
    Amounts,
    ConditionWire,
    FrozenWire,
    Memo,
    MetaWire,
    Parts,
    Time,
    Wire,
    message,
)
from diagnostics.collect.wire.volumes import volume
from diagnostics.masking import mask_args, mask_env
from diagnostics.snapshot import Container, DeviceHealth, Pod, Terminated, Toleration


class _Named(FrozenWire, frozen=True):
    name: str = ""


class _Field(FrozenWire, frozen=True):
    field_path: str = ""


class _Resource(FrozenWire, frozen=True):
    resource: str = ""


class ValueFrom(FrozenWire, frozen=True):
    secret_key_ref: _Named | None = None
    config_map_key_ref: _Named | None = None
    field_ref: _Field | None = None
    resource_field_ref: _Resource | None = None


class EnvWire(FrozenWire, frozen=True):
    name: str
    value: str | None = None
    value_from: ValueFrom | None = None


class ResourcesWire(Wire):
    requests: Amounts | None = None
    limits: Amounts | None = None


class _SecurityWire(FrozenWire, frozen=True):
    privileged: bool | None = None


class _MountWire(FrozenWire, frozen=True):
    name: str
    mount_path: str


class ContainerWire(Wire):
    name: str
    image: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvWire, ...] | None = None
    resources: ResourcesWire | None = None
    volume_mounts: list[_MountWire] | None = None
    restart_policy: str | None = None
    security_context: _SecurityWire | None = None


class _TolerationWire(FrozenWire, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class _ClaimOrTemplate(Wire):
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _ResourceClaim(_ClaimOrTemplate, kw_only=True):
    name: str
    source: _ClaimOrTemplate | None = None
    """Until Kubernetes 1.30."""


class _SchedulingGroup(Wire):
    pod_group_name: str | None = None


class _WorkloadRef(Wire):
    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str | None = None


class _PodSpec(Wire):
    containers: list[ContainerWire]
    init_containers: list[ContainerWire] | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: dict[str, Any] | None = None
    topology_spread_constraints: tuple[dict[str, Any], ...] | None = None
    tolerations: tuple[_TolerationWire, ...] | None = None
    volumes: list[dict[str, msgspec.Raw]] | None = None
    overhead: Amounts | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[_Named] | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    restart_policy: str | None = None
    resource_claims: list[_ResourceClaim] | None = None
    runtime_class_name: str | None = None
    host_network: bool | None = None
    hostname: str | None = None
    subdomain: str | None = None
    termination_grace_period_seconds: int | None = None
    scheduling_group: _SchedulingGroup | None = None
    workload_ref: _WorkloadRef | None = None


class _WaitingWire(Wire):
    reason: str | None = None
    message: str | None = None


class _RunningWire(Wire):
    started_at: Time | None = None


class _TerminatedWire(Wire):
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: Time | None = None
    finished_at: Time | None = None


class _StateWire(Wire):
    waiting: _WaitingWire | None = None
    running: _RunningWire | None = None
    terminated: _TerminatedWire | None = None


class _DeviceWire(Wire):
    resource_id: str = msgspec.field(name="resourceID")
    health: str | None = None


class _AllocatedWire(Wire):
    name: str
    resources: list[_DeviceWire] | None = None


class _ContainerStatus(Wire):
    name: str
    state: _StateWire | None = None
    last_state: _StateWire | None = None
    ready: bool | None = None
    restart_count: int | None = None
    allocated_resources_status: list[_AllocatedWire] | None = None


class _PodStatus(Wire):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    start_time: Time | None = None
    nominated_node_name: str | None = None
    conditions: tuple[ConditionWire, ...] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resource_claim_statuses: list[_ResourceClaim] | None = None


class PodWire(Wire):
    metadata: MetaWire
    spec: _PodSpec
    status: _PodStatus


_NO_STATUS = _ContainerStatus("")


def _tolerations(wires: tuple[_TolerationWire, ...]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            wire.key or "",
            wire.operator or "Equal",
            wire.value or "",
            wire.effect or "",
            wire.toleration_seconds,
        )
        for wire in wires
    )


def _words(words: tuple[str, ...]) -> tuple[str, ...]:
    return mask_args(words)


def _env(entries: tuple[EnvWire, ...]) -> dict[str, str]:
    """Shared between equal environments."""
    return {entry.name: env_value(entry) for entry in entries}


def env_value(entry: EnvWire) -> str:
    """The masked value, or where it comes from: `from secret hf`, `from field status.podIP`."""
    source = entry.value_from
    if source is None:
        return mask_env(entry.name, entry.value or "")
    if source.secret_key_ref is not None:
        return f"from secret {source.secret_key_ref.name}"
    if source.config_map_key_ref is not None:
        return f"from config map {source.config_map_key_ref.name}"
    if source.field_ref is not None:
        return f"from field {source.field_ref.field_path}"
    if source.resource_field_ref is not None:
        return f"from resource {source.resource_field_ref.resource}"
    return "from elsewhere"


def _terminated(wire: _TerminatedWire | None) -> Terminated | None:
    if wire is None:
        return None
    return Terminated(
        intern(wire.reason or ""),
        wire.exit_code,
        wire.signal,
        message(wire.message),
        wire.started_at,
        wire.finished_at,
    )


class PodConverter:
    """Converts the pods of one list; equal parts are made once."""

    def __init__(self) -> None:
        self._parts = Parts()
        self._tolerations = Memo(_tolerations)
        self._env = Memo(_env)
        self._words = Memo(_words)

    def __call__(self, wire: PodWire) -> Pod:
        """Raises ValueError and the like for a pod that makes no sense."""
        parts, meta, spec, status = self._parts, wire.metadata, wire.spec, wire.status
        text = parts.text
        return Pod(
            namespace=text(meta.namespace),
            name=meta.name,
            uid=meta.uid or "",
            labels=parts.labels(meta.labels),
            annotations=parts.annotations(meta.annotations),
            owners=parts.owners(meta.owner_references, text(meta.namespace)),
            created_at=meta.creation_timestamp,
            started_at=status.start_time,
            deletion_at=meta.deletion_timestamp,
            deletion_grace_s=meta.deletion_grace_period_seconds,
            finalizers=meta.finalizers or (),
            node=text(spec.node_name) or None,
            nominated_node=text(status.nominated_node_name) or None,
            ip=status.pod_ip or "",
            phase=text(status.phase),
            reason=text(status.reason),
            message=message(status.message),
            conditions=parts.conditions(status.conditions),
            containers=self._containers(spec, status),
            overhead=parts.amounts(spec.overhead),
            scheduler=text(spec.scheduler_name),
            scheduling_gates=tuple([gate.name for gate in spec.scheduling_gates or ()]),
            priority=spec.priority,
            preemption_policy=text(spec.preemption_policy),
            restart_policy=text(spec.restart_policy),
            node_selector=parts.labels(spec.node_selector),
            affinity=spec.affinity or {},
            topology_spread=spec.topology_spread_constraints or (),
            tolerations=self._tolerations[spec.tolerations] if spec.tolerations else (),
            volumes=tuple([volume(raw) for raw in spec.volumes]) if spec.volumes else (),
            resource_claims=_claims(spec, status) if spec.resource_claims else (),
            claim_templates=_templates(spec, status) if spec.resource_claims else {},
            runtime_class=text(spec.runtime_class_name),
            host_network=bool(spec.host_network),
            hostname=text(spec.hostname),
            subdomain=text(spec.subdomain),
            grace_period_s=spec.termination_grace_period_seconds,
            pod_group=_pod_group(spec),
        )

    def _containers(self, spec: _PodSpec, status: _PodStatus) -> tuple[Container, ...]:
        found: list[Container] = []
        if spec.init_containers:
            said = {one.name: one for one in status.init_container_statuses or ()}
            found += [
                self._container(one, said.get(one.name, _NO_STATUS), True) for one in spec.init_containers
            ]
        said = {one.name: one for one in status.container_statuses or ()}
        found += [self._container(one, said.get(one.name, _NO_STATUS), False) for one in spec.containers]
        return tuple(found)

    def _container(self, wire: ContainerWire, status: _ContainerStatus, is_init: bool) -> Container:
        parts, text = self._parts, self._parts.text
        state, waiting = "", None
        running = terminated = None
        if status.state is not None:
            waiting, running, terminated = status.state.waiting, status.state.running, status.state.terminated
            state = "running" if running else "terminated" if terminated else "waiting" if waiting else ""
        return Container(
            name=text(wire.name),
            image=text(wire.image),
            is_init=is_init,
            is_sidecar=is_init and wire.restart_policy == "Always",
            command=self._words[wire.command] if wire.command else (),
            args=self._words[wire.args] if wire.args else (),
            env=self._env[wire.env] if wire.env else {},
            requests=parts.amounts(wire.resources.requests) if wire.resources else {},
            limits=parts.amounts(wire.resources.limits) if wire.resources else {},
            mounts={text(mount.mount_path): text(mount.name) for mount in wire.volume_mounts or ()},
            is_privileged=bool(wire.security_context and wire.security_context.privileged),
            state=state,
            waiting_reason=text(waiting.reason) if waiting else "",
            waiting_message=message(waiting.message) if waiting else "",
            running_since=running.started_at if running else None,
            terminated=_terminated(terminated),
            last_terminated=_terminated(status.last_state.terminated) if status.last_state else None,
            restarts=status.restart_count or 0,
            is_ready=bool(status.ready),
            devices=_devices(status.allocated_resources_status) if status.allocated_resources_status else (),
        )


def _devices(wires: list[_AllocatedWire]) -> tuple[DeviceHealth, ...]:
    return tuple(
        DeviceHealth(intern(resource.name), device.resource_id, intern(device.health or "Unknown"))
        for resource in wires
        for device in resource.resources or ()
    )


def _claims(spec: _PodSpec, status: _PodStatus) -> tuple[str, ...]:
    """The claims' own names where they are known, else the names that the pod gives them."""
    made = _made(status)
    return tuple(
        (one.source or one).resource_claim_name or made.get(one.name) or one.name
        for one in spec.resource_claims or ()
    )


def _templates(spec: _PodSpec, status: _PodStatus) -> dict[str, str]:
    made = _made(status)
    return {
        made.get(one.name) or one.name: template
        for one in spec.resource_claims or ()
        if (template := (one.source or one).resource_claim_template_name)
    }


def _made(status: _PodStatus) -> dict[str, str | None]:
    return {one.name: one.resource_claim_name for one in status.resource_claim_statuses or ()}


def _pod_group(spec: _PodSpec) -> str:
    if spec.scheduling_group is not None:
        return spec.scheduling_group.pod_group_name or ""
    if spec.workload_ref is not None:
        ref = spec.workload_ref
        return "/".join(part for part in (ref.name, ref.pod_group, ref.pod_group_replica_key) if part)
    return ""
