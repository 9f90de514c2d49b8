"""A span of the past: what labels, leftovers, new names and holes in the series come to."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from diagnostics.collect.history import Cluster, Known, Unreadable, devices_at, read_history
from diagnostics.collect.history.owners import above, by_name, owned
from diagnostics.collect.history.runs import resource_name
from diagnostics.collect.target import PrometheusTarget
from diagnostics.limits import Limits
from diagnostics.snapshot import Gang, Node, OwnerKey, Pod, Snapshot, State
from tests.fakes.history import Kept, Line, board, busy, held, served
from tests.fakes.web import Reply

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
END = START + 20 * MINUTE


def read(kept: Kept, cluster: Cluster | None = None, **options: Any) -> tuple[list[Snapshot], list[str]]:
    """The snapshots of twenty minutes, and what was skipped."""
    with served(kept) as prometheus:
        found = read_history(
            PrometheusTarget(url=prometheus.url),
            START,
            END,
            MINUTE,
            cluster=cluster or Cluster(),
            limits=Limits(),
            timeout_s=5,
            **options,
        )
        return list(found.snapshots), [skip.reason for skip in found.skipped]


def holders(shots: list[Snapshot]) -> list[tuple[str, ...]]:
    """Of the only GPU, minute by minute."""
    return [shot.gpus[0].holders for shot in shots]


def test_gives_one_snapshot_a_step_with_states_and_owners() -> None:
    shots, skipped = read(Kept(busy(held(board("a"), "web-7d9c8b6f5c-x2x4q"), START, END)))
    assert [shot.taken_at for shot in shots] == [START + n * MINUTE for n in range(21)]
    assert skipped == []
    (gpu,) = shots[-1].gpus
    assert (gpu.slot, gpu.node, gpu.model) == ("gpu-1/00000000:10:00.0", "gpu-1", "NVIDIA-A100-SXM4-80GB")
    assert gpu.metrics is not None
    assert (gpu.metrics.sm_active_ratio, gpu.metrics.power_w) == (0.8, 300.0)
    assert shots[-1].pods[0].root == OwnerKey("Deployment", "team-red", "web", "apps/v1")


def test_a_pod_that_lingers_after_its_last_sample_holds_nothing() -> None:
    change = START + 10 * MINUTE
    before = busy(held(board("a"), "one"), START, change - MINUTE)
    after = busy(held(board("a"), "two"), change, END)
    found = holders(read(Kept(before + after))[0])
    assert found == [("team-red/one",)] * 10 + [("team-red/two",)] * 11


def test_an_exporter_that_is_renamed_in_between_tells_of_the_same_device() -> None:
    change = START + 10 * MINUTE
    old = {name: text for name, text in board("a").items() if name != "Hostname"} | {"hostname": "gpu-1"}
    lines = [
        Line("dcgm_gpu_utilization", old, 50, START, change - MINUTE),
        Line("DCGM_FI_DEV_GPU_UTIL", board("a"), 75, change, END),
    ]
    shots, _ = read(Kept(lines))
    assert {gpu.slot for shot in shots for gpu in shot.gpus} == {"gpu-1/00000000:10:00.0"}
    used = [shot.gpus[0].metrics.utilization_ratio for shot in shots if shot.gpus[0].metrics]
    assert (used[0], used[-1]) == (0.5, 0.75)


def test_a_device_that_falls_silent_is_not_made_up() -> None:
    lost_at = START + 8 * MINUTE
    shots, _ = read(Kept(busy(board("a"), START, END) + busy(board("b"), START, lost_at)))
    counts = [len(shot.gpus) for shot in shots]
    assert counts[:9] == [2] * 9
    assert counts[-6:] == [1] * 6


def test_two_jobs_that_scrape_the_same_exporter_are_one_device() -> None:
    twice = busy(board("a"), START, END) + busy(board("a", job="other"), START, END)
    assert {len(shot.gpus) for shot in read(Kept(twice))[0]} == {1}


def test_values_that_are_no_measurements_are_left_out_and_counted() -> None:
    lines = busy(board("a"), START, END)
    lines.append(Line("DCGM_FI_PROF_GR_ENGINE_ACTIVE", board("a"), 9.2e18, START, END))
    lines.append(Line("DCGM_FI_DEV_XID_ERRORS", board("a"), "rubbish", START, END))
    shots, skipped = read(Kept(lines))
    assert shots[0].gpus[0].metrics is not None
    assert shots[0].gpus[0].metrics.gr_engine_ratio is None
    assert len(skipped) == 2
    assert all(reason.endswith("(in history)") for reason in skipped)


def test_the_node_is_found_by_the_board_where_labels_name_an_exporters_pod() -> None:
    labels = board("a") | {"Hostname": "nvidia-dcgm-exporter-k7x2p"}
    kept = Kept(busy(labels, START, END))
    assert read(kept)[0] == []
    assert read(kept)[1] == ["nothing says on which node the device is"]
    known = Cluster(nodes={"gpu-7": Node(name="gpu-7")}, node_by_uuid={"GPU-a": "gpu-7"})
    assert read(kept, known)[0][0].gpus[0].node == "gpu-7"


def test_a_known_gang_that_waits_for_its_collective_is_seen_to_hang() -> None:
    gang = Gang(kind="Job", namespace="team-red", name="train", collective="torchrun over 2 nodes")
    owner = OwnerKey("Job", "team-red", "train")
    known = Cluster(owners=Known(pods=dict.fromkeys(("team-red/a", "team-red/b"), owner)), gangs=(gang,))
    lines = [line for pod in "ab" for line in busy(held(board(pod), pod), START, END)]
    shots, _ = read(Kept(lines), known)
    assert shots[0].gangs[0].members == ("team-red/a", "team-red/b")


def test_an_instance_keeps_its_profile_and_its_own_slot() -> None:
    labels = held(board("a", GPU_I_ID="9", GPU_I_PROFILE="3g.40gb"), "nb-0")
    (gpu,) = read(Kept(busy(labels, START, END)))[0][0].gpus
    assert (gpu.slot, gpu.resource, gpu.holders) == (
        "gpu-1/00000000:10:00.0/mig-9",
        "nvidia.com/mig-3g.40gb",
        ("team-red/nb-0",),
    )


def test_free_without_a_holder_and_never_idle() -> None:
    shots, _ = read(Kept(busy(board("a"), START, END, sm=0.0)))
    assert {gpu.state for shot in shots for gpu in shot.gpus} == {State.FREE}


def test_hostile_labels_are_only_text() -> None:
    pod = 'x"} or vector(1) #\n<script>'
    shots, _ = read(Kept(busy(held(board("a", Hostname="<b>\x1b[31m"), pod), START, END)))
    assert shots[0].gpus[0].holders == (f"team-red/{pod}",)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(status=503), "is not ready, or overloaded"),
        (Reply(b'{"status":"error","error":"too many samples"}', status=422), "too many samples"),
        (Reply(b"<html>", content_type="text/html"), "a web page: is it a sign-in page?"),
    ],
)
def test_says_why_metrics_cannot_be_read(reply: Reply, words: str) -> None:
    with pytest.raises(Unreadable, match=words.replace("?", r"\?")):
        read(Kept(special=lambda asked: reply))


def test_refuses_more_steps_than_prometheus_gives() -> None:
    with pytest.raises(ValueError, match="more than Prometheus gives at once"):
        read_history(
            PrometheusTarget(url="http://127.0.0.1:9"),
            START,
            START + timedelta(days=10),
            MINUTE,
            cluster=Cluster(),
            limits=Limits(),
            timeout_s=1,
        )


def test_knows_since_when_there_are_devices() -> None:
    kept = Kept(busy(board("a"), START + timedelta(hours=5), START + timedelta(hours=10)))
    with served(kept) as prometheus:
        target = PrometheusTarget(url=prometheus.url)
        found = devices_at(target, START, START + timedelta(hours=10), 5)
    assert START + timedelta(hours=5) <= found[0][0] < START + timedelta(hours=5, minutes=3)
    assert {count for _, count in found} == {1}


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("web-7d9c8b6f5c-x2x4q", ("Deployment", "web")),
        ("train-0-bcdfg", ("Job", "train")),
        ("train-eval-3-bcdfg", ("Job", "train-eval")),
        ("db-0", ("StatefulSet", "db")),
        ("nightly-29934150-x2x4q", ("CronJob", "nightly")),
        ("solo", None),
        ("train", None),
        ("trainer-0-bcdfg", None),
    ],
)
def test_owners_by_name(name: str, owner: tuple[str, str] | None) -> None:
    kinds = {"train": "Job", "train-eval": "Job", "db": "StatefulSet", "nightly": "CronJob"}
    known = Known(roots={"ns": tuple(OwnerKey(kind, "ns", own) for own, kind in kinds.items())})
    found = by_name("ns", name, known)
    assert (None if found is None else (found.kind, found.name)) == owner


def test_a_replica_set_is_of_the_deployment_of_its_name() -> None:
    assert above(OwnerKey("ReplicaSet", "ns", "web-7d9c8b6f5c"), Known()).name == "web"
    assert above(OwnerKey("ReplicaSet", "ns", "hand-made"), Known()).kind == "ReplicaSet"


def test_a_job_is_of_a_cron_job_that_polls_have_seen() -> None:
    nightly = OwnerKey("CronJob", "ns", "nightly")
    known = Known(roots={"ns": (OwnerKey("Job", "ns", "train"), nightly)})
    assert above(OwnerKey("Job", "ns", "nightly-29934150"), known) == nightly
    for name, namespace in (("train-20260601", "ns"), ("nightly-a", "ns"), ("nightly-29934150", "other")):
        assert above(OwnerKey("Job", namespace, name), known).kind == "Job"


def test_the_owner_that_a_poll_saw_is_that_of_the_past() -> None:
    top = OwnerKey("InferenceService", "ns", "chat")
    told = Pod(
        namespace="ns", name="chat-0", uid="u-1", owners=(OwnerKey("StatefulSet", "ns", "chat-predictor"),)
    )
    other = msgspec.structs.replace(told, uid="u-2")
    seen, before = owned((told, other), Known(by_uid={"u-1": top}), ())
    assert seen.owners == (top,)
    assert before.owners == told.owners


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("nvidia_com_gpu", "nvidia.com/gpu"),
        ("nvidia_com_gpu_shared", "nvidia.com/gpu.shared"),
        ("nvidia_com_mig_1g_10gb", "nvidia.com/mig-1g.10gb"),
        ("amd_com_gpu", "amd.com/gpu"),
        ("cpu", "cpu"),
    ],
)
def test_resources_by_their_kubernetes_names(label: str, name: str) -> None:
    assert resource_name(label) == name
