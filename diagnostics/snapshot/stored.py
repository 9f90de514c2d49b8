"""A snapshot as bytes and back: msgpack, compressed, with a version; files of every released version load for ever."""

import msgspec
import zstandard

from diagnostics.snapshot import Snapshot

MAGIC = b"GPUHEALTH-SNAPSHOT"
VERSION = 1
MAX_BYTES = 2 * 2**30
"""Largest decompressed snapshot that is read: a crafted file must not fill the memory."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Snapshot)


class UnreadableSnapshot(ValueError):
    """The bytes are no snapshot, or one of a later version."""


def dumps(snapshot: Snapshot) -> bytes:
    """`snapshot` as bytes: magic, one version byte, then a zstandard frame of msgpack."""
    return compressed(encoded(snapshot))


def encoded(snapshot: Snapshot) -> bytes:
    """The first half of `dumps`: plain msgpack, a map of the snapshot's fields."""
    return _encoder.encode(snapshot)


def compressed(plain: bytes) -> bytes:
    """The second half of `dumps`."""
    return MAGIC + bytes([VERSION]) + zstandard.ZstdCompressor(level=3).compress(plain)


def loads(data: bytes) -> Snapshot:
    """The snapshot in `data`. Raises UnreadableSnapshot with a sentence that says why."""
    if not data.startswith(MAGIC) or len(data) <= len(MAGIC):
        msg = "this is not a snapshot file"
        raise UnreadableSnapshot(msg)
    version = data[len(MAGIC)]
    if version > VERSION:
        msg = f"the snapshot has version {version}; this program reads versions up to {VERSION}"
        raise UnreadableSnapshot(msg)
    try:
        frame = data[len(MAGIC) + 1 :]
        size = zstandard.get_frame_parameters(frame).content_size
        if size > MAX_BYTES:
            msg = f"the snapshot would take {size} bytes of memory; at most {MAX_BYTES} are read"
            raise UnreadableSnapshot(msg)
        return _decoder.decode(zstandard.ZstdDecompressor().decompress(frame))
    except (zstandard.ZstdError, msgspec.DecodeError, msgspec.ValidationError) as error:
        msg = f"the snapshot is damaged: {error}"
        raise UnreadableSnapshot(msg) from error
