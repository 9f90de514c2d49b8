"""What the latest poll saw, as far as a page needs it; or why there is nothing to show."""

from diagnostics import picture
from diagnostics.archive import parts
from diagnostics.models import Cluster, StoredPicture
from diagnostics.picture import Devices, UnreadablePicture, Workloads
from diagnostics.snapshot import Snapshot
from diagnostics.snapshot.stored import UnreadableSnapshot

NOTHING_YET = "No poll of this cluster has brought anything yet."


def devices_of(cluster: Cluster) -> tuple[Devices | None, str]:
    """Nodes and GPUs, or None and why. One query."""
    data = StoredPicture.objects.filter(cluster=cluster).values_list("devices", flat=True).first()
    return (None, NOTHING_YET) if data is None else read_devices(data)


def workloads_of(cluster: Cluster) -> tuple[Workloads | None, str]:
    """Workloads with GPU pods, or None and why. One query."""
    data = StoredPicture.objects.filter(cluster=cluster).values_list("workloads", flat=True).first()
    return (None, NOTHING_YET) if data is None else read_workloads(data)


def read_devices(data: "bytes | memoryview[int]") -> tuple[Devices | None, str]:
    """Of a row that is there already."""
    try:
        found = picture.load_devices(bytes(data))
    except UnreadablePicture as error:
        return None, _unreadable(error)
    return found, found.doubt


def read_workloads(data: "bytes | memoryview[int]") -> tuple[Workloads | None, str]:
    """Of a row that is there already."""
    try:
        found = picture.load_workloads(bytes(data))
    except UnreadablePicture as error:
        return None, _unreadable(error)
    return found, found.doubt


def node_of(cluster: Cluster, name: str) -> tuple[Snapshot | None, str]:
    """A snapshot of some nodes and their GPUs, this one among them if it is there; or None and why. One query."""
    try:
        found = parts.with_node(cluster, name)
    except UnreadableSnapshot as error:
        return None, _unreadable(error)
    return found, "" if found is not None else NOTHING_YET


def _unreadable(error: Exception) -> str:
    return f"What the last poll stored cannot be read: {error}. The next poll replaces it."
