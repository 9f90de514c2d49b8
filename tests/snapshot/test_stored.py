"""A snapshot survives storing; files of released versions load for ever; damage is told in words."""

from pathlib import Path

import pytest

from diagnostics.snapshot import Snapshot
from diagnostics.snapshot.stored import MAGIC, UnreadableSnapshot, dumps, loads
from tests.builders import event, gang, gpu, node, pod, snapshot

GOLDEN = Path(__file__).parent / "golden"


def a_snapshot() -> Snapshot:
    held = gpu(holders=("research/train-0",))
    return snapshot(node(), pod(), held, gang(members=("research/train-0",)), event("Pulled"))


def test_what_is_stored_comes_back_equal() -> None:
    shot = a_snapshot()
    assert loads(dumps(shot)) == shot


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.snapshot")), ids=lambda p: p.stem)
def test_a_golden_file_of_a_released_version_loads(path: Path) -> None:
    shot = loads(path.read_bytes())
    assert shot.nodes
    assert shot.pods
    assert shot.gpus_by_pod["research/train-0"]


def test_there_is_a_golden_file_of_the_current_version() -> None:
    assert (GOLDEN / "v1.snapshot").is_file()


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "not a snapshot"),
        (b"PK\x03\x04", "not a snapshot"),
        (MAGIC, "not a snapshot"),
        (MAGIC + b"\xff" + b"x" * 20, "version 255"),
        (MAGIC + b"\x01" + b"garbage", "damaged"),
        (dumps(a_snapshot())[:-20], "damaged"),
    ],
    ids=["empty", "zip", "no version", "later version", "garbage", "truncated"],
)
def test_damage_is_told_in_words(data: bytes, word: str) -> None:
    with pytest.raises(UnreadableSnapshot, match=word):
        loads(data)
