"""Volumes of a pod: of their source only what rules read."""

from sys import intern

import msgspec

from diagnostics.collect.wire.metadata import Wire
from diagnostics.quantities import quantity
from diagnostics.snapshot import Volume


class _ClaimSource(Wire):
    claim_name: str = ""


class _HostPath(Wire):
    path: str = ""


class _EmptyDir(Wire):
    medium: str | None = None
    size_limit: str | int | None = None


_claim_decoder = msgspec.json.Decoder(_ClaimSource | None)
_host_path_decoder = msgspec.json.Decoder(_HostPath | None)
_empty_dir_decoder = msgspec.json.Decoder(_EmptyDir | None)
_name_decoder = msgspec.json.Decoder(str)


def volume(raw: dict[str, msgspec.Raw]) -> Volume:
    """A volume is its name beside one key that is its source. Raises ValueError and the like for another shape."""
    name = _name_decoder.decode(raw["name"])
    kind = next((key for key in raw if key != "name"), "")
    if kind == "persistentVolumeClaim":
        source = _claim_decoder.decode(raw[kind])
        return Volume(name, kind, source.claim_name if source else "")
    if kind == "hostPath":
        host = _host_path_decoder.decode(raw[kind])
        return Volume(name, kind, path=host.path if host else "")
    if kind == "emptyDir":
        directory = _empty_dir_decoder.decode(raw[kind])
        if directory is not None:
            size = quantity(directory.size_limit) if directory.size_limit is not None else None
            return Volume(name, kind, "", directory.medium or "", size)
    return Volume(name, intern(kind))
