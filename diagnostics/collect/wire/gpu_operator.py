"""ClusterPolicy and NVIDIADriver: their state, and the settings that say how a driver gets onto a node."""

from collections.abc import Iterator, Mapping
from typing import Any

from diagnostics.collect.wire.metadata import ConditionWire, MetaWire, Parts, Wire
from diagnostics.snapshot import OperatorResource

SETTINGS: dict[str, tuple[str, ...]] = {
    "ClusterPolicy": (
        "driver.enabled", "driver.version", "driver.usePrecompiled", "driver.kernelModuleType",
        "toolkit.enabled", "devicePlugin.enabled", "devicePlugin.config.name", "dcgmExporter.enabled",
        "migManager.enabled", "mig.strategy", "cdi.enabled", "operator.defaultRuntime", "operator.runtimeClass",
    ),
    "NVIDIADriver": ("driverType", "version", "usePrecompiled", "kernelModuleType"),
}  # fmt: skip
"""By kind. Nothing else of the specification is kept: environment and pull secrets stay where they are."""


class _Status(Wire):
    state: str | None = None
    conditions: tuple[ConditionWire, ...] | None = None


class OperatorResourceWire(Wire):
    metadata: MetaWire
    spec: dict[str, Any] | None = None
    status: _Status | None = None


class OperatorResourceConverter:
    """Converts one list, whose kind and version are those of the list."""

    def __init__(self, kind: str, api_version: str) -> None:
        self._kind = kind
        self._api_version = api_version
        self._parts = Parts()

    def __call__(self, wire: OperatorResourceWire) -> OperatorResource:
        status = wire.status or _Status()
        return OperatorResource(
            kind=self._kind,
            name=wire.metadata.name,
            api_version=self._api_version,
            uid=wire.metadata.uid or "",
            created_at=wire.metadata.creation_timestamp,
            state=self._parts.text(status.state),
            conditions=self._parts.conditions(status.conditions),
            settings=dict(_settings(SETTINGS.get(self._kind, ()), wire.spec or {})),
        )


def _settings(paths: tuple[str, ...], spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for path in paths:
        value: Any = spec
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            yield path, "true" if value else "false"
        elif isinstance(value, str | int | float):
            yield path, str(value)[:200]
