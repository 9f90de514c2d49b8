"""No name of the owner survives, the same name gets the same stand-in, and relations hold."""

from datetime import timedelta

import msgspec

from diagnostics.collect.past import past_after
from diagnostics.snapshot import (
    ContainerUsage,
    DeviceCourse,
    HostPeak,
    MemoryPeak,
    NodeUsage,
    Policy,
    Snapshot,
    Storage,
)
from diagnostics.snapshot.anonymise import anonymise
from diagnostics.snapshot.policy import DisruptionBudget, ResourceQuota
from diagnostics.snapshot.storage import PersistentVolume, StorageClass, VolumeClaim
from diagnostics.snapshot.stored import dumps, loads
from tests.builders import NOW, container, event, gang, gpu, node, owner, pod, snapshot

SECRETS = ("acme", "falcon", "gpu-berlin-7", "team-rocket", "10.20.30.40", "acme.example")


def a_snapshot() -> Snapshot:
    worker = pod(
        "falcon-0",
        "team-rocket",
        node="gpu-berlin-7",
        ip="10.20.30.40",
        root=owner("StatefulSet", "falcon", "team-rocket"),
        labels={"app": "falcon", "acme.example/cost-centre": "acme-17"},
        annotations={"acme.example/contact": "somebody@acme.example", "gpuhealth.io/exempt": "idle-gpu"},
        containers=(
            container(
                "falcon", image="registry.acme.example/falcon:2", env={"MASTER_ADDR": "falcon-0.falcon"}
            ),
        ),
    )
    said = event(
        "FailedScheduling",
        'pod "team-rocket/falcon-0" did not fit on gpu-berlin-7: 4 Insufficient nvidia.com/gpu.',
        name="falcon-0",
        namespace="team-rocket",
    )
    return snapshot(
        node("gpu-berlin-7", labels={"acme.example/row": "acme-row"}, rack="acme-row"),
        worker,
        gpu(node="gpu-berlin-7", holders=(worker.key,)),
        gang("falcon", "team-rocket", members=(worker.key,)),
        said,
        cluster="acme-prod",
        usage=(ContainerUsage(pod=worker.key, container="falcon", span=timedelta(minutes=30)),),
        gpu_courses=(DeviceCourse(slot=gpu(node="gpu-berlin-7").slot, pod=worker.key),),
        node_usage=(NodeUsage(node="gpu-berlin-7", io_wait_ratio=0.1),),
        storage=Storage(
            claims=(VolumeClaim(namespace="team-rocket", name="falcon-data", volume="acme-volume"),),
            volumes=(PersistentVolume(name="acme-volume", claim="team-rocket/falcon-data"),),
            classes=(StorageClass(name="acme-gold", provisioner="csi.acme.example"),),
        ),
        policy=Policy(
            quotas=(ResourceQuota(namespace="team-rocket", name="acme-quota"),),
            budgets=(DisruptionBudget(namespace="team-rocket", name="falcon-budget"),),
        ),
    )


def test_no_name_survives() -> None:
    text = repr(loads(dumps(anonymise(a_snapshot()))))
    assert [secret for secret in SECRETS if secret in text] == []


def test_no_name_survives_in_what_is_remembered() -> None:
    peaks = {"Job/team-acme/falcon-old": MemoryPeak(gpu_bytes=1.0, seen_at=NOW)}
    before = past_after(a_snapshot(), timedelta(days=1))
    host = {"Job/team-acme/falcon-old/acme-box": HostPeak(rss_bytes=1.0, at=NOW)}
    before = msgspec.structs.replace(before, memory_peaks=before.memory_peaks | peaks, host_peaks=host)
    found = anonymise(msgspec.structs.replace(a_snapshot(), past=before))
    assert [secret for secret in SECRETS if secret in repr(found)] == []
    assert found.past.last_active.keys() == {found.gpus[0].slot}
    assert len(found.past.memory_peaks) == 2


def test_relations_and_facts_stay() -> None:
    found = anonymise(a_snapshot())
    worker = found.pods[0]
    assert worker.node == found.nodes[0].name
    assert found.gpus_by_pod[worker.key][0].node == worker.node
    assert found.gang_by_pod[worker.key].members == (worker.key,)
    assert found.events[0].name == worker.name
    assert "4 Insufficient nvidia.com/gpu." in found.events[0].message
    assert worker.containers[0].env["MASTER_ADDR"].startswith(worker.name)
    assert worker.gpu_count == 1
    assert found.nodes[0].labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB"


def test_our_own_annotations_stay_and_others_go() -> None:
    assert anonymise(a_snapshot()).pods[0].annotations == {"gpuhealth.io/exempt": "idle-gpu"}


def test_the_same_snapshot_is_anonymised_alike() -> None:
    assert anonymise(a_snapshot()) == anonymise(a_snapshot())
