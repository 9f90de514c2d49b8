"""Rows of root owners: who holds GPUs or asks for them, by which labels, and nobody."""

import pytest

from diagnostics.models import Workload
from diagnostics.snapshot import Source
from diagnostics.snapshot import Workload as WorkloadObject
from tests.builders import gpu, node, owner, pending_pod, pod
from tests.topology.timeline import Polls

pytestmark = pytest.mark.django_db

JOB = owner()
KEY = ("Job", "research", "train")


def job(**fields: object) -> WorkloadObject:
    return WorkloadObject(kind="Job", namespace="research", name="train", **fields)  # type: ignore[arg-type]


def test_whoever_holds_or_asks_has_a_row_and_nobody_too() -> None:
    known = Polls().poll(
        node(gpus=2),
        gpu(0, holders=("research/train-0",)),
        pod("train-0", root=JOB),
        pending_pod("wait-0"),
        pod("plain", gpus=0),
        pod("done", phase="Succeeded"),
        pod("old", root=None, gpus=1),
    )

    assert set(known.workloads) == {KEY, ("Pod", "research", "wait-0"), ("Pod", "research", "old")}
    assert Workload.objects.get(pk=known.workloads[KEY]).name == "train"
    assert str(Workload.objects.get(pk=known.nobody)) == "nobody"
    assert Workload.objects.count() == 4


def test_an_owner_keeps_its_row_however_long_it_was_away() -> None:
    polls = Polls()
    first = polls.poll(pod("train-0", root=JOB))
    began = polls.at
    for _ in range(50):
        polls.poll()
    again = polls.poll(pod("train-1", root=JOB))

    assert again.workloads == first.workloads
    assert again.nobody == first.nobody
    row = Workload.objects.get(name="train")
    assert (row.first_seen, row.last_seen) == (began, polls.at)


def test_labels_are_the_workloads_over_those_of_its_pods() -> None:
    labels = {"team": "pods", "tier": "gold", "pod-template-hash": "abc"}
    known = Polls().poll(
        pod("train-0", root=JOB, labels=labels, annotations={"cni": "10.0.0.1"}),
        workloads=(job(labels={"team": "vision"}, annotations={"cost": "42"}),),
    )

    row = Workload.objects.get(pk=known.workloads[KEY])
    assert (row.labels, row.annotations) == ({"team": "vision", "tier": "gold"}, {"cost": "42"})


def test_an_owner_that_cannot_be_read_speaks_through_its_first_pod() -> None:
    polls = Polls()
    known = polls.poll(
        pod("train-1", root=JOB, labels={"team": "b"}),
        pod("train-0", root=JOB, labels={"team": "a"}, annotations={"cost": "42"}),
    )

    row = Workload.objects.get(pk=known.workloads[KEY])
    assert (row.labels, row.annotations) == ({"team": "a"}, {"cost": "42"})


def test_labels_follow_the_workload() -> None:
    polls = Polls()
    for team in ("vision", "speech"):
        polls.poll(pod("train-0", root=JOB), workloads=(job(labels={"team": team}),))

    assert Workload.objects.get(name="train").labels == {"team": "speech"}


def test_labels_stay_while_workloads_cannot_be_read() -> None:
    polls = Polls()
    polls.poll(pod("train-0", root=JOB), workloads=(job(labels={"team": "vision"}),))
    polls.poll(pod("train-0", root=JOB, labels={"team": "pod"}), without=[Source.WORKLOADS])

    assert Workload.objects.get(name="train").labels == {"team": "vision"}


def test_only_small_labels_and_annotations_are_kept() -> None:
    huge = {f"note-{number:03}": "x" * 200 for number in range(100)}
    polls = Polls()
    polls.poll(
        pod("train-0", root=JOB),
        workloads=(job(labels={"team": "vision"}, annotations=huge | {"config": "y" * 5000}),),
    )

    row = Workload.objects.get(name="train")
    size = sum(len(k) + len(v) for words in (row.labels, row.annotations) for k, v in words.items())
    assert row.labels == {"team": "vision"}
    assert "config" not in row.annotations
    assert 3000 < size <= 4096


def test_hostile_owners_are_kept_as_they_are() -> None:
    name = "<script>'\"\n" + "n" * 400
    known = Polls().poll(
        pod("a", root=owner(name=f"{name}\x00", kind="K" * 100), labels={"team\x00": "x\x00"})
    )

    row = Workload.objects.get(pk=known.workloads["K" * 100, "research", f"{name}\x00"])
    assert (row.name, row.kind) == (name[:253], "K" * 80)
    assert row.labels == {"team\ufffd": "x\ufffd"}


def test_an_owner_without_a_kind_is_not_nobody() -> None:
    known = Polls().poll(pod("a", root=owner(kind="")))

    assert known.workloads["", "research", "train"] != known.nobody
