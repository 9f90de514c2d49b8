"""What a pod's command, arguments and environment say about ranks outside this pod.

torchrun starts one node unless `--nnodes` says otherwise (default `1:1`, PyTorch's `torch.distributed.run`),
and mpirun without a host list starts local ranks: a server may use either inside one pod without any peer.
"""

import re

import msgspec

from diagnostics.snapshot import Pod

_LAUNCHER = re.compile(
    r"(?<![\w.-])(torchrun|torch\.distributed\.(?:run|launch)|mpirun|mpiexec|horovodrun)(?![\w-])"
)
_NODES = re.compile(r"--nnodes[= ]+[\"']?(\d+)(?::(\d+))?")
_ADDRESS = re.compile(r"--(?:rdzv[-_]endpoint|master[-_]addr)[= ]+[\"']?([^\s\"':]+)")
_HOSTS = re.compile(r"(?:^|\s)-{1,2}(?:H|host|hosts|hostfile|machinefile)[= ]+\S")
_COUNT = re.compile(r"(\d+)(?::(\d+))?")
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 -- compared with, not bound to


class Launch(msgspec.Struct, frozen=True):
    """How a pod joins others: the evidence in words, and how many nodes the launcher names."""

    evidence: str = ""
    """Empty when nothing says that there are peers."""
    is_weak: bool = False
    """A launcher is there, but neither it nor the environment says whether ranks live outside this pod."""
    nodes_min: int | None = None
    """Fewest nodes with which the job runs: below `nodes_max` for an elastic job."""
    nodes_max: int | None = None


def launch_of(pod: Pod) -> Launch:
    """What the first container with a word about peers says; an empty Launch when none does."""
    found = [_of_container(" ".join((*c.command, *c.args)), c.env, pod.gpu_count) for c in pod.containers]
    found = [launch for launch in found if launch.evidence]
    return min(found, key=lambda launch: launch.is_weak, default=Launch())


def _of_container(line: str, env: dict[str, str], gpus: int) -> Launch:
    launcher = _LAUNCHER.search(line)
    nodes = _NODES.search(line) or _COUNT.fullmatch(env.get("PET_NNODES", env.get("NNODES", "")).strip())
    nodes_min = int(nodes[1]) if nodes else None
    nodes_max = int(nodes[2] or nodes[1]) if nodes else None
    if nodes_max == 1 or "--standalone" in line:
        return Launch()
    name = launcher[1] if launcher else ""
    if nodes_max is not None:
        span = str(nodes_max) if nodes_min == nodes_max else f"{nodes_min} to {nodes_max}"
        return Launch(f"{name or 'PET_NNODES'} over {span} nodes", False, nodes_min, nodes_max)
    address = _ADDRESS.search(line)
    if address:
        if address[1] in _LOCAL:
            return Launch()
        return Launch(f"{name or 'rendezvous'} with a rendezvous outside the pod")
    if name and (_HOSTS.search(line) or "OMPI_MCA_orte_default_hostfile" in env):
        return Launch(f"{name} with a host list")
    variable = _peers_in(env, gpus)
    if variable is None:
        return Launch()
    if variable:
        return Launch(f"{variable} in the environment" + (f", {name} in the command line" if name else ""))
    return Launch(f"{name} in the command line", True) if name else Launch()


def _peers_in(env: dict[str, str], gpus: int) -> str | None:
    """The variable that tells of peers, "" when none does, None when the environment rules peers out."""
    if env.get("MASTER_ADDR") in _LOCAL:
        return None
    size = env.get("WORLD_SIZE", "")
    if size.isdigit() and int(size) <= max(1, gpus) and "MASTER_ADDR" not in env:
        return None
    if size == "1":
        return None
    return next(
        (v for v in ("MASTER_ADDR", "WORLD_SIZE", "LWS_LEADER_ADDRESS", "PET_MASTER_ADDR") if v in env), ""
    )
