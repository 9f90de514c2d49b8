"""GPU403: killed by its own probe, and why the probe failed."""

from typing import Any

import msgspec
import pytest
import yaml

from diagnostics.findings import Confidence, Finding
from diagnostics.fixes import Risk
from diagnostics.snapshot import Event, Source, Workload
from tests.builders import ago, container, event, owner, pod
from tests.rules.memory.failing_pods import diagnosed, ended, failing_pod, found, looping, restarted

DEPLOYMENT = owner("Deployment", "vllm")
NOT_FOUND = "Liveness probe failed: HTTP probe failed with statuscode: 404"
KILLED = ended("Error", 137)


def unhealthy(message: str = NOT_FOUND, **fields: Any) -> Event:
    return event("Unhealthy", message, count=3, **fields)


def killing(name: str = "main", count: int = 4, **fields: Any) -> Event:
    text = f"Container {name} failed liveness probe, will be restarted"
    return event("Killing", text, type="Normal", count=count, **fields)


def findings(*parts: Any, **fields: Any) -> list[Finding]:
    return found("probe-killed", *parts, **fields)


def test_reports_a_probe_that_asks_for_what_is_not_there() -> None:
    (finding,) = findings(failing_pod(looping(KILLED), root=DEPLOYMENT), unhealthy(), killing())
    assert finding.cause == "liveness-probe-misconfigured"
    assert finding.subject.name == "vllm"
    assert "not from memory" in finding.summary
    assert finding.confidence is Confidence.HIGH


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Liveness probe failed: HTTP probe failed with statuscode: 405", "liveness-probe-misconfigured"),
        ("Liveness probe failed: HTTP probe failed with statuscode: 503", "server-reports-unhealthy"),
        ('Liveness probe failed: Get "http://10.0.0.7:8000/health": dial tcp: connect: connection refused',
         "liveness-probe-before-model-loaded"),
        ('Startup probe failed: Get "http://10.0.0.7:8000/health": context deadline exceeded (Client.Timeout exceeded '
         "while awaiting headers)", "liveness-probe-times-out"),
        ("Liveness probe failed: ", "unknown"),
    ],
)  # fmt: skip
def test_tells_the_causes_apart_by_what_the_probe_got(message: str, cause: str) -> None:
    (finding,) = findings(failing_pod(looping(KILLED)), unhealthy(message), killing())
    assert finding.cause == cause
    assert finding.fix.steps[0].risk is Risk.READ_ONLY


def test_takes_the_newest_answer() -> None:
    old = unhealthy("Liveness probe failed: connect: connection refused", last_at=ago(minutes=30))
    (finding,) = findings(failing_pod(looping(KILLED)), old, unhealthy(last_at=ago(minutes=2)), killing())
    assert finding.cause == "liveness-probe-misconfigured"


def test_reports_a_container_that_runs_between_two_kills() -> None:
    (finding,) = findings(failing_pod(restarted(KILLED, restarts=6)), unhealthy(), killing(count=1))
    assert "6 times" in finding.summary


def with_probe(**probes: Any) -> Workload:
    spec = {"template": {"spec": {"containers": [{"name": "main", **probes}]}}}
    return Workload(kind="Deployment", namespace="research", name="vllm", api_version="apps/v1", spec=spec)


def test_builds_the_startup_probe_from_the_present_one() -> None:
    live = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10, "failureThreshold": 3}
    refused = unhealthy("Liveness probe failed: connect: connection refused")
    (finding,) = findings(
        failing_pod(looping(KILLED), root=DEPLOYMENT),
        refused,
        killing(),
        workloads=(with_probe(livenessProbe=live),),
    )
    assert any(e.label == "startupProbe" and e.value == "none" for e in finding.evidence)
    step = next(s for s in finding.fix.steps if s.command.startswith("kubectl patch"))
    box = yaml.safe_load(step.manifest)["spec"]["template"]["spec"]["containers"][0]
    assert box["startupProbe"]["httpGet"] == {"path": "/health", "port": "http"}
    assert box["startupProbe"]["failureThreshold"] * box["startupProbe"]["periodSeconds"] == 1800


def test_writes_no_masked_header_back() -> None:
    live = {
        "httpGet": {"path": "/h", "port": 80, "httpHeaders": [{"name": "Authorization", "value": "[masked]"}]}
    }
    refused = unhealthy("Liveness probe failed: connect: connection refused")
    (finding,) = findings(
        failing_pod(looping(KILLED), root=DEPLOYMENT),
        refused,
        killing(),
        workloads=(with_probe(livenessProbe=live),),
    )
    assert not any("[masked]" in s.command + s.manifest for s in finding.fix.steps)


@pytest.mark.parametrize(
    "spec", [{}, {"template": None}, {"template": {"spec": {"containers": "x"}}}, {"template": []}]
)
def test_survives_a_template_of_another_shape(spec: dict[str, Any]) -> None:
    workload = msgspec.structs.replace(with_probe(), spec=spec)
    assert (
        len(
            findings(
                failing_pod(looping(KILLED), root=DEPLOYMENT), unhealthy(), killing(), workloads=(workload,)
            )
        )
        == 1
    )


def test_is_silent_on_a_readiness_probe() -> None:
    message = "Readiness probe failed: HTTP probe failed with statuscode: 503"
    assert findings(failing_pod(container(is_ready=False)), unhealthy(message)) == []


def test_is_silent_on_a_probe_that_killed_nothing() -> None:
    assert findings(failing_pod(restarted(KILLED)), unhealthy()) == []


def test_is_silent_on_one_kill() -> None:
    assert findings(failing_pod(restarted(KILLED, restarts=1)), unhealthy(), killing(count=1)) == []


def test_is_silent_on_an_oom_kill() -> None:
    assert findings(failing_pod(looping(ended("OOMKilled", 137))), unhealthy(), killing()) == []


def test_is_silent_on_the_events_of_another_container_and_of_an_earlier_pod() -> None:
    box = failing_pod(looping(KILLED))
    assert findings(box, unhealthy(), killing(name="sidecar")) == []
    assert findings(box, unhealthy(uid="old"), killing(uid="old")) == []


def test_is_silent_on_a_pod_without_gpus_and_on_one_being_deleted() -> None:
    assert findings(failing_pod(looping(KILLED, gpus=0), gpus=0), unhealthy(), killing()) == []
    assert findings(failing_pod(looping(KILLED), deletion_at=ago(minutes=1)), unhealthy(), killing()) == []


def test_is_no_memory_finding() -> None:
    outcome = diagnosed(failing_pod(looping(KILLED)), unhealthy(), killing())
    assert not {"oom-killed", "cuda-out-of-memory"} & {f.slug for f in outcome.findings}


def test_is_skipped_without_events() -> None:
    outcome = diagnosed(failing_pod(looping(KILLED)), killing(), without=[Source.EVENTS])
    assert "GPU403" in {s.code for s in outcome.skipped}


def test_merges_the_pods_of_one_owner() -> None:
    pods = [pod(f"vllm-{n}", root=DEPLOYMENT, containers=(looping(KILLED),)) for n in range(2)]
    text = "Container main failed liveness probe, will be restarted"
    kills = [event("Killing", text, f"vllm-{n}", count=3) for n in range(2)]
    (finding,) = findings(*pods, *kills)
    assert finding.pods == ("research/vllm-0", "research/vllm-1")
