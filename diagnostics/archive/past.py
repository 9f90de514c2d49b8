"""What the next poll may know of those before it, kept beside the snapshot so that no snapshot is read for it."""

import logging
from collections import Counter
from datetime import datetime, timedelta

import msgspec
import zstandard

from diagnostics.archive.failures import failure_signs
from diagnostics.collect.past import past_after
from diagnostics.models import ArchiveState, Cluster
from diagnostics.rules.failures import FAILURES_OVER, occasions
from diagnostics.snapshot import Past, Snapshot

XIDS_OVER = timedelta(days=366)
"""At most kept; how much of it the next poll is told is a limit of the site."""
MOST_BYTES = 256 * 2**20

log = logging.getLogger(__name__)
_decoder = msgspec.msgpack.Decoder(Past)


def pack(snapshot: Snapshot) -> bytes:
    """History as of `snapshot`, for the next poll."""
    past = past_after(snapshot, XIDS_OVER)
    return zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(past))


def keep(cluster: Cluster, packed: bytes) -> None:
    """In the poll's transaction."""
    ArchiveState.objects.update_or_create(cluster=cluster, defaults={"past": packed})


def known(cluster: Cluster, xid_recent: timedelta) -> Past:
    """The history that was kept, with Xids not older than `xid_recent` and the failures of each node.

    Empty before the first poll. Bytes that cannot be read cost the history, not the poll.
    """
    state = ArchiveState.objects.filter(cluster=cluster).first()
    if state is None or not state.past:
        return Past()
    try:
        past = _unpacked(bytes(state.past))
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        log.warning("%s: the history of earlier polls is lost: %s", cluster, error)
        return Past()
    if past.taken_at is None:
        return past
    earliest = past.taken_at - xid_recent
    recent = {
        slot: kept
        for slot, xids in past.xids.items()
        if (kept := tuple(x for x in xids if x.last_at is not None and x.last_at >= earliest))
    }
    incidents = incidents_by_node(cluster, past.taken_at - FAILURES_OVER)
    return msgspec.structs.replace(past, xids=recent, incidents=incidents)


def incidents_by_node(cluster: Cluster, since: datetime) -> dict[str, int]:
    """Node -> on how many occasions since then an incident of its hardware or its GPUs opened or came back."""
    signs = failure_signs(cluster, since).values_list("incident__subject_name", "at", "pk")
    return dict(Counter(node for node, _, _ in occasions(signs)))


def _unpacked(data: bytes) -> Past:
    if not 0 <= zstandard.get_frame_parameters(data).content_size <= MOST_BYTES:
        raise ValueError("it would fill the memory")
    return _decoder.decode(zstandard.ZstdDecompressor().decompress(data))
