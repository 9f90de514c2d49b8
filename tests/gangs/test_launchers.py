"""Signs of peers in a pod's command, arguments and environment."""

import pytest

from diagnostics.gangs import launch_of
from diagnostics.snapshot import Pod
from tests.builders import container, pod


def running(*command: str, gpus: int = 1, env: dict[str, str] | None = None) -> Pod:
    return pod(containers=(container(gpus=gpus, command=command, env=env or {}),))


@pytest.mark.parametrize(
    "command",
    [
        ("torchrun", "--nnodes=4", "train.py"),
        ("torchrun", "--nnodes", "4", "train.py"),
        ("python", "-m", "torch.distributed.run", "--nnodes=4", "train.py"),
        ("bash", "-c", "torchrun --rdzv-endpoint=train-0.train:29500 train.py"),
        ("mpirun", "--hostfile", "/etc/mpi/hostfile", "python", "train.py"),
    ],
)
def test_a_launcher_over_several_nodes_is_evidence(command: tuple[str, ...]) -> None:
    launch = launch_of(running(*command))

    assert launch.evidence
    assert not launch.is_weak


@pytest.mark.parametrize(
    "command",
    [
        ("python", "serve.py"),
        ("torchrun", "--standalone", "--nproc-per-node=8", "train.py"),
        ("torchrun", "--nnodes=1", "train.py"),
        ("torchrun", "--nnodes=1:1", "train.py"),
        ("torchrun", "--master-addr=127.0.0.1", "train.py"),
        ("cat", "my-torchrun-notes.txt"),
    ],
)
def test_ranks_inside_one_pod_are_no_evidence(command: tuple[str, ...]) -> None:
    assert launch_of(running(*command)).evidence == ""


def test_a_bare_launcher_is_weak_evidence() -> None:
    assert launch_of(running("torchrun", "train.py")).is_weak
    assert launch_of(running("mpirun", "-np", "8", "server", gpus=8)).is_weak


@pytest.mark.parametrize("name", ["MASTER_ADDR", "WORLD_SIZE", "LWS_LEADER_ADDRESS"])
def test_a_variable_that_names_peers_is_evidence(name: str) -> None:
    assert name in launch_of(running("python", "train.py", env={name: "16"})).evidence


def test_a_world_size_of_the_pods_own_gpus_is_no_evidence() -> None:
    assert launch_of(running("python", "serve.py", gpus=8, env={"WORLD_SIZE": "8"})).evidence == ""


def test_a_local_master_address_is_no_evidence() -> None:
    assert launch_of(running("torchrun", "serve.py", env={"MASTER_ADDR": "localhost"})).evidence == ""


def test_an_elastic_launcher_tells_its_range() -> None:
    launch = launch_of(running("torchrun", "--nnodes=2:8", "train.py"))

    assert (launch.nodes_min, launch.nodes_max) == (2, 8)


def test_node_counts_come_from_the_environment_too() -> None:
    assert launch_of(running("torchrun", "train.py", env={"PET_NNODES": "4"})).nodes_max == 4


def test_a_hostile_command_is_no_evidence() -> None:
    assert launch_of(running("\x1b[31m\n" + "--nnodes=" * 5000)).evidence == ""
