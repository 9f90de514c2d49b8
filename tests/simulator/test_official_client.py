"""The official client reads everything that the simulator serves, fully typed."""

from pathlib import Path
from typing import Any

import kubernetes

from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.faults import CATALOGUE
from diagnostics.simulator.server import SimulatedCluster
from tests.simulated import ROOMY
from tests.simulator.simulated import NOW


def test_typed_lists_of_all_resources(tmp_path: Path) -> None:
    config = WorldConfig(nodes=ROOMY, faults=tuple(CATALOGUE))
    with SimulatedCluster(config, lambda: NOW, token="t") as cluster:
        path = cluster.write_kubeconfig(tmp_path / "kubeconfig")
        client = kubernetes.config.new_client_from_config(str(path))  # type: ignore[no-untyped-call]
        core, apps, batch = (
            kubernetes.client.CoreV1Api(client),
            kubernetes.client.AppsV1Api(client),
            kubernetes.client.BatchV1Api(client),
        )
        lists: list[Any] = [
            core.list_pod_for_all_namespaces(),
            core.list_node(),
            core.list_event_for_all_namespaces(),
            core.list_namespace(),
            core.list_service_for_all_namespaces(),
            apps.list_deployment_for_all_namespaces(),
            apps.list_replica_set_for_all_namespaces(),
            apps.list_stateful_set_for_all_namespaces(),
            apps.list_daemon_set_for_all_namespaces(),
            batch.list_job_for_all_namespaces(),
            batch.list_cron_job_for_all_namespaces(),
        ]
        # No typed events.k8s.io/v1: servers answer the kubelet's events with a null eventTime, which it refuses.
        assert all(found.items for found in lists)
        pod = next(p for p in lists[0].items if p.metadata.name.startswith("llm-pretrain-0"))
        (status,) = pod.status.container_statuses
        assert len(status.allocated_resources_status[0].resources) == 8
        log = core.read_namespaced_pod_log(pod.metadata.name, pod.metadata.namespace, tail_lines=2)
        assert len(log.splitlines()) == 2
        assert {method for method, _ in cluster.requests} == {"GET"}
        client.close()
