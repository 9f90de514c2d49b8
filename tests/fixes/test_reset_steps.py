"""A reset names who has to leave, runs where nvidia-smi is, and says which GPUs it takes along."""

import shlex
from typing import Any

import pytest

from diagnostics.fixes import Risk, StepKind, reset_steps
from diagnostics.snapshot import Node, OwnerKey, Pod
from diagnostics.snapshot.policy import DisruptionBudget
from tests.builders import container, gpu, node, owner, pod

DAEMON_SET = OwnerKey("DaemonSet", "gpu-operator", "x", "apps/v1")


def component(app: str, *names: str) -> Pod:
    containers = tuple(container(name, gpus=0) for name in names)
    return pod(
        f"{app}-x", "gpu-operator", 0, labels={"app": app}, owners=(DAEMON_SET,), containers=containers
    )


def of(major: str, **labels: str) -> Node:
    return node(labels={"nvidia.com/gpu.compute.major": major} | labels)


def test_a_drain_names_the_gpus_it_takes_and_the_pods_that_nothing_makes_again() -> None:
    job = OwnerKey("Job", "research", "train", "batch/v1")
    owned = pod("train-0", gpus=4, owners=(job,))
    bare = pod("notebook", gpus=1)
    done = pod("done", gpus=1, phase="Succeeded")
    static = pod("proxy", "kube-system", 0, owners=(OwnerKey("Node", "", "gpu-1", "v1"),))

    why = reset_steps.drain("gpu-1", (owned, bare, done, static, component("nvidia-dcgm-exporter"))).why

    assert "research/train-0 (4 GPUs) and research/notebook (1 GPU)." in why
    assert "refuses to begin because of research/notebook, which nothing makes again: with `--force`" in why
    assert not any(word in why for word in ("done", "proxy", "dcgm"))


def test_a_drain_without_bare_pods_says_nothing_of_force() -> None:
    owned = pod(owners=(OwnerKey("Job", "research", "train", "batch/v1"),))
    assert "--force" not in reset_steps.drain("gpu-1", (owned,)).why


@pytest.mark.parametrize(
    ("major", "told"),
    [
        ("7", "in the same command"),
        ("8", "alone; on a board with NVSwitch only while Fabric Manager runs"),
        ("9", "alone: its neighbours go on"),
        ("many", "Before Ampere"),
    ],
)
def test_a_reset_says_which_gpus_it_takes_along(major: str, told: str) -> None:
    assert told in reset_steps.reset_gpu(gpu(), of(major)).why


def test_a_reset_runs_on_the_host_without_a_driver_container() -> None:
    words = shlex.split(reset_steps.reset_gpu(gpu(3), node()).command)
    assert words[:3] == ["kubectl", "debug", "node/gpu-1"]
    assert words[-6:] == ["chroot", "/host", "nvidia-smi", "--gpu-reset", "-i", "00000000:13:00.0"]


def test_a_reset_runs_in_the_driver_container_where_there_is_one() -> None:
    driver = component("nvidia-driver-daemonset", "nvidia-driver-ctr")
    words = shlex.split(reset_steps.reset_gpu(gpu(3), node(), (driver,)).command)
    assert words == shlex.split(
        "kubectl exec -n gpu-operator nvidia-driver-daemonset-x -c nvidia-driver-ctr -- "
        "nvidia-smi --gpu-reset -i 00000000:13:00.0"
    )


def test_what_keeps_gpus_open_is_stopped_by_its_labels_and_put_back() -> None:
    labels: dict[str, Any] = {
        reset_steps.SWITCH + name: "true" for name in ("device-plugin", "dcgm-exporter", "mig-manager")
    }
    pods = (component("nvidia-device-plugin-daemonset"), component("nvidia-dcgm-exporter"))
    switches = reset_steps.switches_of(of("9", **labels), pods)
    stop, start = (
        reset_steps.stop_clients("gpu-1", switches),
        reset_steps.start_clients("gpu-1", switches),
    )

    assert set(switches) == {
        "nvidia.com/gpu.deploy.device-plugin",
        "nvidia.com/gpu.deploy.dcgm-exporter",
    }
    assert stop.command == (
        "kubectl label node --overwrite gpu-1 nvidia.com/gpu.deploy.dcgm-exporter=false "
        "nvidia.com/gpu.deploy.device-plugin=false"
    )
    assert start.command == stop.command.replace("=false", "=true")
    assert start.kind is StepKind.RESTORE


def test_what_has_no_label_to_stop_it_is_named() -> None:
    why = reset_steps.reset_gpu(gpu(), node(), (component("dcgm-exporter"),)).why
    assert "Stop dcgm-exporter-x on this node first." in why
    switched = node(labels={"nvidia.com/gpu.deploy.dcgm-exporter": "true"})
    assert "Stop" not in reset_steps.reset_gpu(gpu(), switched, (component("nvidia-dcgm-exporter"),)).why


def test_a_drain_names_the_budgets_that_hold_it_back() -> None:
    served = pod("llama-0", "serving", labels={"app": "llama"}, owners=(owner("Deployment", "llama"),))
    other = pod("other-0", "serving", labels={"app": "other"}, owners=(owner("Deployment", "other"),))
    app = {"matchLabels": {"app": "llama"}}
    shut = DisruptionBudget(namespace="serving", name="keep-all", selector=app, allowed=0)
    open_ = DisruptionBudget(namespace="serving", name="roomy", selector=app, allowed=1)
    elsewhere = DisruptionBudget(namespace="research", name="far", selector=app, allowed=0)
    unknown = DisruptionBudget(namespace="serving", name="unsaid", selector=app)

    why = reset_steps.drain("gpu-1", (served, other), (shut, open_, elsewhere, unknown)).why

    assert "serving/keep-all (1 pod here)" in why
    assert not any(name in why for name in ("roomy", "far", "unsaid"))
    assert "budget" not in reset_steps.drain("gpu-1", (served,), None).why


def test_remapped_rows_are_seen_where_nvidia_smi_is_and_only_from_ampere_on() -> None:
    (on_host,) = reset_steps.see_remapped_rows(gpu(3), node())
    driver = component("nvidia-driver-daemonset", "nvidia-driver-ctr")
    (in_driver,) = reset_steps.see_remapped_rows(gpu(3), of("8"), (driver,))
    assert reset_steps.see_remapped_rows(gpu(3), of("7"), (driver,)) == ()
    assert shlex.split(on_host.command)[-8:] == [
        *("chroot", "/host"), "nvidia-smi", "-q", "-d", "ROW_REMAPPER", "-i", "00000000:13:00.0",
    ]  # fmt: skip
    assert (
        "exec -n gpu-operator nvidia-driver-daemonset-x -c nvidia-driver-ctr -- nvidia-smi -q"
        in in_driver.command
    )
    # A debug pod is something that it adds to the cluster.
    assert (on_host.risk, in_driver.risk) == (Risk.SAFE, Risk.READ_ONLY)
    assert "Remapping Failure Occurred: Yes" in in_driver.expect
