"""A snapshot as what differs from another one (its base), and back. Pure; figures in docs/decisions/0006.

Objects that the base has too are named by their place in it; measured values are columns (`measured`). A whole one is
the same without a base. Everything comes back as it was, but for metrics and windows, which are rounded.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
import zstandard

from diagnostics.archive.measured import Table, measured, metrics_table, windows_table
from diagnostics.snapshot import OwnerKey, Pod, Snapshot, stored
from diagnostics.snapshot.stored import MAX_BYTES, UnreadableSnapshot

_LISTS = (
    *("nodes", "gpus", "pods", "workloads", "gangs"),
    *("events", "namespaces", "services", "signals", "apis"),
    *("queues", "queued", "pod_groups", "operator_resources"),
)
_OF_DEVICES = ("nodes", "gpus", "gangs")
_NEW = -1

_Run = tuple[int, int]
"""(place in the base's list, how many from there on), or (_NEW, how many of the new ones)."""


class _Objects(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One list of objects."""

    runs: tuple[_Run, ...] = ()
    new: tuple[msgspec.Raw, ...] = ()


class _Patch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    fields: dict[str, msgspec.Raw]
    """Fields of the snapshot that are no lists of objects."""
    objects: dict[str, _Objects]
    metrics: Table
    windows: Table


_encode = msgspec.msgpack.Encoder().encode
_raw_fields = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_NONE = msgspec.Raw(_encode(()))
_NO_VALUES = Table((), {})
_raw_list = msgspec.msgpack.Decoder(tuple[msgspec.Raw, ...]).decode
_read_patch = msgspec.msgpack.Decoder(_Patch).decode
_read_snapshot = msgspec.msgpack.Decoder(Snapshot).decode


class _Slot(msgspec.Struct, frozen=True, gc=False):
    slot: str
    node: str


_read_slot = msgspec.msgpack.Decoder(_Slot).decode


class _Owned(msgspec.Struct, frozen=True, gc=False):
    """A pod, as far as whose it is."""

    namespace: str
    name: str
    root: OwnerKey | None = None


_read_owned = msgspec.msgpack.Decoder(_Owned).decode


class Base(msgspec.Struct, frozen=True):
    """A whole snapshot, read as far as its patches need: the bytes of each object."""

    objects: dict[str, list[bytes]]

    @classmethod
    def of(cls, data: bytes) -> "Base":
        """Raises UnreadableSnapshot for what `pack` did not make, or made with a base."""
        patch = _unpacked(data)
        try:
            return cls({name: list(_whole(patch, name, None)) for name in _LISTS})
        except ValueError as error:
            raise _damaged(error) from error


def pack(snapshot: Snapshot, base: Base | None, encoded: bytes | None = None) -> bytes:
    """`snapshot` as msgpack, compressed; with a base it can be read with that one alone. `encoded`: what
    `stored.encoded` makes of it, where that is there already.
    """
    plain = _raw_fields(stored.encoded(snapshot) if encoded is None else encoded)
    bare = tuple(msgspec.structs.replace(gpu, metrics=None, window=None) for gpu in snapshot.gpus)
    lists = {name: plain.pop(name, _NONE) for name in _LISTS}
    lists["gpus"] = msgspec.Raw(_encode(bare))
    patch = _Patch(
        fields=plain,
        objects={name: _objects(raw, base, name) for name, raw in lists.items()},
        metrics=metrics_table(snapshot.gpus),
        windows=windows_table(snapshot.gpus),
    )
    return zstandard.ZstdCompressor(level=3).compress(_encode(patch))


def unpack(data: bytes, base: Base | None) -> Snapshot:
    """The snapshot that `pack` was given. Raises UnreadableSnapshot for damaged bytes or another base."""
    patch = _unpacked(data)
    try:
        lists = {name: [msgspec.Raw(raw) for raw in _whole(patch, name, base)] for name in _LISTS}
        bare = _read_snapshot(_encode({**patch.fields, **lists}))
        return msgspec.structs.replace(bare, gpus=measured(bare.gpus, patch.metrics, patch.windows))
    except (msgspec.DecodeError, ValueError) as error:
        raise _damaged(error) from error


def unpack_devices(data: bytes, base: Base | None) -> Snapshot:
    """The same without windows, events and controllers, and of pods only whose they are: a third of the time, since
    most of a snapshot is what its pods say. Raises UnreadableSnapshot.
    """
    patch = _unpacked(data)
    try:
        lists = {name: [msgspec.Raw(raw) for raw in _whole(patch, name, base)] for name in _OF_DEVICES}
        bare = _read_snapshot(_encode({**patch.fields, **lists}))
        owned = map(_read_owned, _whole(patch, "pods", base))
        return msgspec.structs.replace(
            bare,
            pods=tuple(Pod(namespace=pod.namespace, name=pod.name, root=pod.root) for pod in owned),
            gpus=measured(bare.gpus, patch.metrics, _NO_VALUES),
        )
    except (msgspec.DecodeError, ValueError) as error:
        raise _damaged(error) from error


class Sampled(msgspec.Struct, frozen=True):
    """The devices of an archived snapshot, and the values of their last samples: all that a roll-up reads."""

    slots: tuple[tuple[str, str], ...]
    """(node, slot) of each device."""
    metrics: Table


def sampled(data: bytes, base: Base | None) -> Sampled:
    """Without reading the pods. Raises UnreadableSnapshot."""
    patch = _unpacked(data)
    try:
        found = (_read_slot(raw) for raw in _whole(patch, "gpus", base))
        return Sampled(tuple((gpu.node, gpu.slot) for gpu in found), patch.metrics)
    except (msgspec.DecodeError, ValueError) as error:
        raise _damaged(error) from error


def _unpacked(data: bytes) -> _Patch:
    try:
        if not 0 <= zstandard.get_frame_parameters(data).content_size <= MAX_BYTES:
            msg = "the archived snapshot would fill the memory"
            raise UnreadableSnapshot(msg)
        return _read_patch(zstandard.ZstdDecompressor().decompress(data))
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(error) from error


def _damaged(error: Exception) -> UnreadableSnapshot:
    return UnreadableSnapshot(f"the archived snapshot is damaged: {error}")


def _objects(items: msgspec.Raw, base: Base | None, name: str) -> _Objects:
    raws = _raw_list(items)
    if base is None:
        return _Objects(((_NEW, len(raws)),) if raws else (), raws)
    places = {raw: place for place, raw in enumerate(base.objects.get(name, ()))}
    found = [places.get(bytes(raw), _NEW) for raw in raws]
    return _Objects(
        tuple(_runs(found)), tuple(raw for raw, place in zip(raws, found, strict=True) if place == _NEW)
    )


def _runs(places: Iterable[int]) -> Iterator[_Run]:
    start, count = 0, 0
    for place in places:
        if count and place == (_NEW if start == _NEW else start + count):
            count += 1
            continue
        if count:
            yield start, count
        start, count = place, 1
    if count:
        yield start, count


def _whole(patch: _Patch, name: str, base: Base | None) -> Iterator[bytes]:
    """The bytes of each object of one list. Raises ValueError where the base has not what is named."""
    objects = patch.objects.get(name, _Objects())
    new = iter(objects.new)
    known = base.objects.get(name, []) if base is not None else []
    for start, count in objects.runs:
        if start == _NEW:
            part = [bytes(raw) for raw in islice(new, count)]
        else:
            part = known[start : start + count] if start >= 0 else []
        if len(part) != count:
            raise ValueError("it does not fit its base")
        yield from part
