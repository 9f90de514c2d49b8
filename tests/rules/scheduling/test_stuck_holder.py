"""Pods that hold GPUs and cannot work, and those that hold nothing or will work."""

import shlex
from typing import Any

import pytest
import yaml

from diagnostics.findings import Confidence, Hit
from diagnostics.fixes import Risk
from diagnostics.limits import Limits
from diagnostics.rules.scheduling.stuck_holder import check
from diagnostics.snapshot import Condition, Container, Node, Terminated, Volume, Workload
from tests.builders import ago, container, event, node, owner, pending_pod, pod, snapshot


def hits(*parts: Any) -> list[Hit]:
    return [found for found in check(snapshot(*parts), Limits()) if isinstance(found, Hit)]


def hit(*parts: Any) -> Hit:
    (found,) = hits(*parts)
    return found


def waiting(reason: str, **fields: Any) -> Container:
    defaults: dict[str, Any] = {
        "state": "waiting",
        "waiting_reason": reason,
        "running_since": None,
        "is_ready": False,
        "gpus": 4,
    }
    return container(**(defaults | fields))


def looping(restarts: int = 9, **fields: Any) -> Container:
    last = Terminated("Error", 1, finished_at=ago(minutes=2))
    return waiting("CrashLoopBackOff", restarts=restarts, last_terminated=last, **fields)


def creating(**fields: Any) -> dict[str, Any]:
    begun = ago(minutes=10)
    return {
        "phase": "Pending",
        "created_at": begun,
        "started_at": begun,
        "containers": (waiting("ContainerCreating"),),
    } | fields


def lost_node(**fields: Any) -> Node:
    return node(conditions=(Condition("Ready", "Unknown", since=ago(minutes=40)),), **fields)


def test_a_crash_loop_holds_gpus() -> None:
    found = hit(node(), pod(containers=(looping(),)))

    assert found.cause == "crash-loop"
    assert (
        found.title
        == "Pod research/train-0 holds 4 GPUs and cannot work: container main is in a crash loop, with 9 restarts"
    )
    assert (found.gpus, found.waste_gpus, found.nodes) == (4, 4.0, ("gpu-1",))
    assert "Error, exit code 1" in str(found.evidence)


def test_a_crash_loop_holds_gpus_between_two_crashes_too() -> None:
    between = looping(state="running", waiting_reason="", is_ready=True, running_since=ago(minutes=2))

    found = hit(node(), pod(containers=(between,)))
    assert found.cause == "crash-loop"
    assert "running, between two crashes" in str(found.evidence)
    assert any("--previous" in step.command for step in found.fix.steps)


def test_an_init_container_can_loop_too() -> None:
    init = looping(name="wait", gpus=0, is_init=True)

    assert hit(node(), pod(containers=(init, container(gpus=1, state="waiting")))).cause == "crash-loop"


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImagePull", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled(reason: str) -> None:
    broken = waiting(reason, image="registry.example/team/train:typo", waiting_message="not found")

    found = hit(node(), pod(**creating(containers=(broken,))))

    assert found.cause == "image-pull"
    assert "registry.example/team/train:typo" in found.title


def test_volumes_that_cannot_be_mounted() -> None:
    said = event("FailedAttachVolume", "Multi-Attach error for volume pvc-1")

    found = hit(node(), said, pod(**creating(volumes=(Volume("d", "persistentVolumeClaim", "data"),))))

    assert found.cause == "mount-failed"
    assert "Multi-Attach" in str(found.evidence)
    assert any("data" in step.command for step in found.fix.steps)


def test_a_sandbox_that_cannot_be_made() -> None:
    said = event("FailedCreatePodSandBox", 'no runtime for "nvidia" is configured')

    assert hit(node(), said, pod(**creating())).cause == "sandbox-failed"


def test_a_missing_configuration() -> None:
    broken = waiting("CreateContainerConfigError", waiting_message='configmap "x" not found')

    assert hit(node(), pod(**creating(containers=(broken,)))).cause == "config-error"


def test_containers_that_are_created_for_long_without_a_word() -> None:
    begun = ago(minutes=31)

    found = hit(node(), pod(**creating(created_at=begun, started_at=begun)))

    assert found.cause == "not-starting"
    assert found.confidence is Confidence.MEDIUM


def test_terminating_past_its_grace() -> None:
    found = hit(node(), pod(deletion_at=ago(minutes=31), finalizers=("example.com/wait",), gpus=4))

    assert found.cause == "process-does-not-end"
    assert "example.com/wait" in str(found.evidence)
    assert "31 min" in found.title


def test_terminating_on_a_lost_node_is_a_lost_node() -> None:
    found = hit(lost_node(), pod(deletion_at=ago(minutes=31)))

    assert found.cause == "unknown-node-lost"
    assert "gpu-1 is lost" in found.title


def test_a_phase_of_unknown() -> None:
    found = hit(node(), pod(phase="Unknown", reason="NodeLost"))

    assert found.cause == "unknown-node-lost"
    assert "Unknown NodeLost" in str(found.evidence)


def test_a_pod_that_no_controller_evicts_from_a_lost_node() -> None:
    assert hit(lost_node(), pod()).cause == "unknown-node-lost"


def test_a_pod_that_does_not_become_ready() -> None:
    found = hit(node(), pod(conditions=(Condition("Ready", "False", since=ago(minutes=31)),)))

    assert found.cause == "not-ready"
    assert found.confidence is Confidence.MEDIUM


def test_pods_of_one_owner_are_one_finding() -> None:
    root = owner("StatefulSet", "ranker")
    pods = [pod(f"ranker-{i}", root=root, deletion_at=ago(minutes=31), gpus=2) for i in range(2)]

    found = hit(node(), *pods)

    assert (found.subject.kind, found.subject.name) == ("StatefulSet", "ranker")
    assert (found.gpus, len(found.pods)) == (4, 2)


def test_the_cause_that_holds_most_gpus_leads() -> None:
    root = owner()
    found = hit(
        node(),
        pod("a", root=root, containers=(looping(gpus=1),)),
        pod("b", root=root, deletion_at=ago(minutes=31), gpus=4),
    )

    assert found.cause == "process-does-not-end"
    assert "crash-loop (1 GPU)" in found.summary


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"phase": "Failed", "deletion_at": ago(hours=1), "finalizers": ("x",)},
            id="finished, finalizer left",
        ),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, id="evicted"),
        pytest.param({"phase": "Succeeded"}, id="succeeded"),
        pytest.param({"deletion_at": ago(minutes=1)}, id="within its grace"),
        pytest.param({"containers": (looping(restarts=2),)}, id="few restarts"),
        pytest.param({"containers": (container(restarts=7),)}, id="running again"),
        pytest.param(creating(), id="young and being created"),
        pytest.param(
            creating(started_at=ago(minutes=2), containers=(waiting("ErrImagePull"),)), id="young pull"
        ),
        pytest.param({"conditions": ()}, id="nothing said of ready"),
        pytest.param({"containers": (looping(gpus=0),)}, id="no GPUs"),
        pytest.param({}, id="healthy"),
    ],
)
def test_ignores_pods_that_hold_nothing_or_will_work(fields: dict[str, Any]) -> None:
    assert hits(node(), pod(**fields)) == []


def test_ignores_a_pod_that_waits_for_a_node() -> None:
    assert hits(node(), pending_pod(containers=(looping(),))) == []


def test_ignores_a_node_that_has_just_gone() -> None:
    fresh = node(conditions=(Condition("Ready", "Unknown", since=ago(minutes=3)),))

    assert hits(fresh, pod()) == []


def test_without_nodes_a_running_pod_is_not_taken_for_lost() -> None:
    assert hits(pod()) == []


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job", "Pod", "PyTorchJob"])
def test_a_crash_loop_is_stopped_at_its_owner_after_looking(kind: str) -> None:
    fields: dict[str, Any] = {} if kind == "Pod" else {"root": owner(kind)}

    steps = hit(node(), pod(containers=(looping(),), **fields)).fix.steps

    assert steps[0].risk is Risk.READ_ONLY
    assert any("--previous" in step.command for step in steps)
    (stop,) = [step for step in steps if step.risk in {Risk.DISRUPTIVE, Risk.DESTRUCTIVE}]
    assert steps.index(stop) == len(steps) - 2
    assert shlex.split(stop.command)[0] == "kubectl"


@pytest.mark.parametrize(
    "stuck",
    [
        pod(deletion_at=ago(minutes=31)),
        pod(phase="Unknown"),
    ],
)
def test_forced_deletion_is_the_last_resort_with_its_warning(stuck: Any) -> None:
    steps = hit(node(), stuck).fix.steps

    forced = [step for step in steps if "--force" in step.command]
    assert [step.risk for step in forced] == [Risk.DESTRUCTIVE]
    assert steps.index(forced[0]) == len(steps) - 2
    assert "Two writers" in forced[0].why
    assert "confirmed dead" in forced[0].why


def test_no_other_cause_is_answered_by_force() -> None:
    for one in (pod(containers=(looping(),)), pod(**creating(containers=(waiting("ErrImagePull"),)))):
        assert not any("--force" in step.command for step in hit(node(), one).fix.steps)


def test_hostile_messages_stay_text() -> None:
    name = "x\x1b[31m\n<b>"
    broken = waiting("ErrImagePull", image=name, waiting_message=name * 999)

    found = hit(node(), pod(name, **creating(containers=(broken,))))

    assert "\x1b" not in found.title + found.summary + str([f.value for f in found.evidence])
    assert all(yaml.safe_load(step.manifest) for step in found.fix.steps if step.manifest)


@pytest.mark.parametrize(
    ("root", "words"), [(None, "no owner makes it anew"), ("Job", "its Job makes a new one")]
)
def test_a_forced_deletion_says_whether_the_pod_comes_back(root: str | None, words: str) -> None:
    owned: dict[str, Any] = {"root": owner(root)} if root else {}

    found = hit(node(), pod(deletion_at=ago(minutes=40), **owned))

    forced = next(step for step in found.fix.steps if "--force" in step.command)
    assert words in forced.expect


def test_a_pod_that_works_again_is_not_said_to_free_its_gpus() -> None:
    summary = hit(node(), pod(containers=(looping(),))).summary

    assert "only when the pod has ended or is gone" in summary


def test_another_image_waits_for_no_gpu_that_the_old_pod_holds() -> None:
    root = owner("Deployment", "server")
    stuck = pod(root=root, phase="Pending", containers=(waiting("ImagePullBackOff", gpus=8),))
    server = Workload(
        kind="Deployment", namespace="research", name="server", replicas=1, spec={"template": {}}
    )

    found = list(check(snapshot(node(), stuck, workloads=(server,)), Limits()))

    assert isinstance(found[0], Hit)
    commands = [step.command for step in found[0].fix.steps]
    assert any('"maxSurge":0' in command for command in commands)
    assert not any("maxSurge" in step.command for step in hit(node(), stuck).fix.steps)
