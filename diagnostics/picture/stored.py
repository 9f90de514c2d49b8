"""A picture as bytes and back: two frames, so that a page reads only what it shows."""

from typing import NamedTuple, TypeVar

import msgspec
import zstandard

from diagnostics.picture.devices import Devices
from diagnostics.picture.workloads import Workloads

VERSION = 1
"""Of the stored form. A picture lives until the next poll: one of another version is not read, but waited out."""
MAX_BYTES = 256 * 2**20

_encode = msgspec.msgpack.Encoder().encode
_devices = msgspec.msgpack.Decoder(Devices)
_workloads = msgspec.msgpack.Decoder(Workloads)
T = TypeVar("T")


class Picture(NamedTuple):
    """What pages show of one poll."""

    devices: Devices
    workloads: Workloads


class UnreadablePicture(ValueError):
    """The bytes are no picture of this version."""


def dumps(picture: Picture) -> tuple[bytes, bytes]:
    """Devices and workloads, each as a zstandard frame of msgpack."""
    compressor = zstandard.ZstdCompressor(level=3)
    return compressor.compress(_encode(picture.devices)), compressor.compress(_encode(picture.workloads))


def load_devices(data: bytes) -> Devices:
    """Raises UnreadablePicture."""
    return _loaded(data, _devices)


def load_workloads(data: bytes) -> Workloads:
    """Raises UnreadablePicture."""
    return _loaded(data, _workloads)


def _loaded(data: bytes, decoder: "msgspec.msgpack.Decoder[T]") -> T:
    try:
        if not 0 <= zstandard.get_frame_parameters(data).content_size <= MAX_BYTES:
            msg = "it would fill the memory"
            raise UnreadablePicture(msg)
        return decoder.decode(zstandard.ZstdDecompressor().decompress(data))
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"it is damaged: {error}"
        raise UnreadablePicture(msg) from error
