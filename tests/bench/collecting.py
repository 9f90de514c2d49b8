"""10,000 pods on 1,000 nodes over HTTP: collecting them against the bare transfer of the same pages.

Each side runs in a process of its own, in turn, five times; the medians count. Bare transfer: every page of every
list that collect reads, fetched with the same client, gunzipped and dropped. Limits: at most 1.5 times the bare
transfer, and 200 MB of peak memory.
"""

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NODES, PODS, ROUNDS = 1_000, 10_000, 5
RATIO_LIMIT, MEMORY_LIMIT_MB = 1.5, 200


LISTS = (
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/namespaces",
    "/api/v1/services",
    "/apis/events.k8s.io/v1/events",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/apis/batch/v1/jobs",
    "/apis/batch/v1/cronjobs",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/batch.volcano.sh/v1alpha1/jobs",
    "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
    "/apis/kubeflow.org/v1/pytorchjobs",
    "/apis/kueue.x-k8s.io/v1beta1/clusterqueues",
    "/apis/kueue.x-k8s.io/v1beta1/localqueues",
    "/apis/kueue.x-k8s.io/v1beta1/workloads",
    "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets",
    "/apis/scheduling.k8s.io/v1alpha2/podgroups",
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/apis/scheduling.volcano.sh/v1beta1/queues",
)
"""What collect reads; the answers to discovery are small beside them."""


def _continue_token(page: bytes) -> str:
    """From the list's metadata, which stands before its items."""
    found = re.search(rb'"continue":"([^"]*)"', page[:2_000])
    return found.group(1).decode() if found else ""


def run() -> bool:
    """Print the figures; True when both limits hold."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "diagnostics.simulator", "--kubeconfig", str(kubeconfig)),
                *("--nodes", str(NODES), "--pods", str(PODS)),
            ],
            stdout=subprocess.DEVNULL,
        )
        try:
            _wait_for(kubeconfig, server)
            _measure("bare", kubeconfig)  # the server renders its pages once
            rounds = [
                {side: _measure(side, kubeconfig) for side in ("bare", "collect")} for _ in range(ROUNDS)
            ]
        finally:
            server.terminate()
            server.wait(20)
    return _report(rounds)


def _report(rounds: list[dict[str, dict[str, float]]]) -> bool:
    ratio = statistics.median(r["collect"]["seconds"] / r["bare"]["seconds"] for r in rounds)
    memory = statistics.median(r["collect"]["peak_mb"] for r in rounds)
    print(f"collecting {PODS} pods on {NODES} nodes, median of {ROUNDS} rounds")
    for side in ("bare", "collect"):
        seconds = statistics.median(r[side]["seconds"] for r in rounds)
        cpu = statistics.median(r[side]["cpu_seconds"] for r in rounds)
        peak = statistics.median(r[side]["peak_mb"] for r in rounds)
        size = rounds[0][side]["megabytes"]
        print(
            f"  {side:8} {seconds:6.2f} s  ({cpu:.2f} s of CPU)  peak {peak:4.0f} MB  {size:.0f} MB of JSON"
        )
    print(f"  ratio {ratio:.2f} (limit {RATIO_LIMIT}); peak {memory:.0f} MB (limit {MEMORY_LIMIT_MB})")
    return ratio <= RATIO_LIMIT and memory <= MEMORY_LIMIT_MB


def _wait_for(kubeconfig: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not (kubeconfig.exists() and kubeconfig.stat().st_size):
        if server.poll() is not None or time.monotonic() > deadline:
            msg = "the simulator did not start"
            raise RuntimeError(msg)
        time.sleep(0.1)


def _measure(side: str, kubeconfig: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.collecting", side, str(kubeconfig)],
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONHASHSEED": "0"},
    )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _main(side: str, kubeconfig: Path) -> None:
    """In the child: do one side and print its figures as JSON."""
    from diagnostics.collect.kube_api import read_cluster
    from diagnostics.collect.kube_client import connect
    from diagnostics.collect.target import Target

    connection = connect(Target(name="bench", kubeconfig=kubeconfig))
    size = 0
    started = time.perf_counter()
    if side == "bare":
        for path in LISTS:
            token = ""
            while True:
                query = {"limit": "500"} | ({"continue": token} if token else {})
                body = connection.get(path, query).body
                size += len(body)
                token = _continue_token(body)
                if not token:
                    break
    else:
        objects = read_cluster(connection, Target(name="bench", kubeconfig=kubeconfig))
        assert len(objects.pods) >= PODS, len(objects.pods)
        assert len(objects.nodes) == NODES
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
        "megabytes": size / 2**20,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
