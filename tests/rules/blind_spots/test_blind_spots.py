"""GPU9xx: each missing source says what cannot be seen and names the line that cures it; never a finding."""

from typing import Any

from diagnostics.findings import Coverage
from diagnostics.rules import diagnose
from diagnostics.snapshot import Metrics, Skipped, Source, SourceState, SourceStatus
from tests.builders import ago, gpu, node, pod, snapshot, statuses


def coverage(code: str, *parts: Any, **fields: Any) -> list[Coverage]:
    diagnosis = diagnose(snapshot(*parts, **fields))
    assert not [f for f in diagnosis.findings if f.code.startswith("GPU9")]
    return [c for c in diagnosis.coverage if c.code == code]


def replaced(status: SourceStatus) -> tuple[SourceStatus, ...]:
    return tuple(status if s.name is status.name else s for s in statuses())


def test_no_metrics_at_all() -> None:
    (blind,) = coverage("GPU901", node(), gpu(metrics=None), without=[Source.METRICS, Source.WINDOW])
    assert "--prometheus" in blind.cure


def test_a_node_without_exporter_is_named() -> None:
    (blind,) = coverage("GPU901", node(), node("gpu-2"), gpu(), gpu(node="gpu-2", metrics=None))
    assert "gpu-2" in blind.what
    assert "gpu-1" not in blind.what


def test_no_window() -> None:
    (blind,) = coverage("GPU901", node(), gpu(), without=[Source.WINDOW])
    assert "idle" in blind.what


def test_exporters_that_are_down_and_metrics_without_pods() -> None:
    blinds = coverage(
        "GPU901",
        node(),
        pod(),
        gpu(holders=("research/train-0",)),
        exporters_down=("10.0.0.7:9400",),
        has_pod_labels=False,
    )
    assert ["10.0.0.7:9400" in b.what for b in blinds] == [True, False]
    assert "DCGM_EXPORTER_KUBERNETES" in blinds[1].cure


def test_a_cluster_without_gpus_misses_nothing() -> None:
    assert not coverage("GPU901", node(gpus=0), without=[Source.METRICS])


def test_stale_samples_are_named_with_their_age() -> None:
    (blind,) = coverage("GPU902", node(), gpu(metrics=Metrics(sampled_at=ago(minutes=17))), gpu(1))
    assert "17 min" in blind.what
    assert "1 GPU on gpu-1" in blind.what


def test_fresh_samples_are_silent() -> None:
    assert not coverage("GPU902", node(), gpu())


def test_a_forbidden_source_names_the_role_that_cures_it() -> None:
    said = SourceStatus(
        name=Source.NODES, state=SourceState.FORBIDDEN, detail='nodes is forbidden: User "viewer"'
    )
    (blind,) = coverage("GPU903", sources=replaced(said))
    assert 'User "viewer"' in blind.what
    assert "deploy/rbac.yaml" in blind.cure


def test_one_dead_server_is_said_once() -> None:
    dead = {"state": SourceState.FAILED, "detail": "no answer from 10.0.0.1"}
    sources = tuple(SourceStatus(name=s, **dead) for s in Source)  # type: ignore[arg-type]
    (blind,) = coverage("GPU903", sources=sources)
    assert "Pods, and with them" in blind.what
    assert blind.what.count("10.0.0.1") == 1


def test_skipped_objects_are_counted() -> None:
    said = SourceStatus(
        name=Source.PODS, state=SourceState.PARTIAL, skipped=(Skipped("metadata.name is missing", 3, "x"),)
    )
    (blind,) = coverage("GPU903", sources=replaced(said))
    assert "3 unreadable objects skipped" in blind.what


def test_all_sources_well_is_silent() -> None:
    assert not coverage("GPU903", node())


def test_a_cluster_without_dynamic_resource_allocation_misses_nothing() -> None:
    assert not coverage("GPU903", without=[Source.CLAIMS])


def test_claims_that_may_not_be_read_are_named() -> None:
    refused = SourceStatus(
        name=Source.CLAIMS, state=SourceState.FORBIDDEN, detail="cannot list resourceslices"
    )
    (blind,) = coverage("GPU903", sources=replaced(refused))
    assert "cannot list resourceslices" in blind.what
    assert "deploy/rbac.yaml" in blind.cure
