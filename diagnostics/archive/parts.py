"""The latest snapshot in parts, so that the page of one node reads a sixteenth of the nodes and of their pods."""

import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from diagnostics.models import Cluster, StoredSnapshot
from diagnostics.snapshot import Snapshot, stored

NODE_PARTS = 16
REST = 0

_encode = msgspec.msgpack.Encoder().encode
_raw_fields = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_raw_list = msgspec.msgpack.Decoder(tuple[msgspec.Raw, ...]).decode


def part_of(node: str) -> int:
    """Which part holds this node and its devices."""
    return 1 + zlib.crc32(node.encode("utf-8", "surrogatepass")) % NODE_PARTS


def split(snapshot: Snapshot, encoded: bytes) -> dict[int, bytes]:
    """Part -> `snapshot.stored` bytes; `encoded` is what `stored.encoded` makes of `snapshot`."""
    fields = _raw_fields(encoded)
    shared: dict[str, Any] = {name: fields[name] for name in ("taken_at", "sources") if name in fields}
    parts: dict[int, dict[str, Any]] = defaultdict(shared.copy)
    parts[REST] = fields
    for name, nodes in (
        ("nodes", [node.name for node in snapshot.nodes]),
        ("gpus", [gpu.node for gpu in snapshot.gpus]),
        ("pods", [pod.node for pod in snapshot.pods]),
    ):
        raws = _raw_list(fields.pop(name)) if name in fields else ()
        for node, raw in zip(nodes, raws, strict=True):
            parts[REST if node is None else part_of(node)].setdefault(name, []).append(raw)
    return {part: stored.compressed(_encode(held)) for part, held in parts.items()}


def keep(cluster: Cluster, snapshot: Snapshot, parts: dict[int, bytes]) -> None:
    """Make these the cluster's latest snapshot, in the poll's transaction."""
    rows = [
        StoredSnapshot(
            cluster=cluster, part=part, taken_at=snapshot.taken_at, format=stored.VERSION, data=data
        )
        for part, data in parts.items()
    ]
    # Not update_or_create, which reads the old one first.
    StoredSnapshot.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["cluster", "part"],
        update_fields=["taken_at", "format", "data"],
    )
    StoredSnapshot.objects.filter(cluster=cluster).exclude(part__in=list(parts)).delete()


def latest(cluster: Cluster) -> Snapshot | None:
    """The whole latest snapshot, its nodes and pods by name; None before the first. Raises UnreadableSnapshot."""
    parts = _parts(StoredSnapshot.objects.filter(cluster=cluster).order_by("part"))
    if not parts:
        return None
    nodes = sorted((node for part in parts for node in part.nodes), key=lambda node: node.name)
    gpus = sorted((gpu for part in parts for gpu in part.gpus), key=lambda gpu: gpu.node)
    pods = sorted((pod for part in parts for pod in part.pods), key=lambda pod: (pod.namespace, pod.name))
    return replace(parts[0], nodes=tuple(nodes), gpus=tuple(gpus), pods=tuple(pods))


def with_node(cluster: Cluster, node: str) -> Snapshot | None:
    """The part that holds this node if the latest snapshot does: `taken_at`, `sources`, nodes, and the GPUs and pods of
    these nodes alone. None without such a part. Raises UnreadableSnapshot. One query.
    """
    found = _parts(StoredSnapshot.objects.filter(cluster=cluster, part=part_of(node)))
    return found[0] if found else None


def _parts(rows: Iterable[StoredSnapshot]) -> list[Snapshot]:
    return [stored.loads(bytes(row.data)) for row in rows]
