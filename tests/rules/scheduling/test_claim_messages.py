"""GPU303 from messages about claims: recorded cases, other wordings, and what must stay silent."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.findings import Finding
from diagnostics.rules import diagnose
from diagnostics.signatures import signals_in
from diagnostics.snapshot import Event, Pod
from tests.builders import ago, event, node, pod, snapshot
from tests.claims import claim, claimant, dra, dra_node, mig_device, slice_of
from tests.corpus import mutations
from tests.corpus.pictures import picture

CASES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "corpus" / "claims").glob("*.yaml"))
}
NOT_PREPARED = (
    "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for claim "
)


def of_rule(*parts: Any, **fields: Any) -> list[Finding]:
    diagnosis = diagnose(snapshot(*parts, **fields))
    assert not diagnosis.failed
    return [finding for finding in diagnosis.findings if finding.code == "GPU303"]


def causes(text: str) -> list[str]:
    diagnosis = diagnose(picture("log", text))
    assert not diagnosis.failed
    return [finding.cause for finding in diagnosis.findings if finding.code == "GPU303"]


def expected(name: str) -> list[str]:
    return [] if CASES[name]["cause"] == "none" else [CASES[name]["cause"]]


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_case_gets_its_cause(name: str) -> None:
    assert causes(CASES[name]["input"]) == expected(name)


def other_names(text: str, random: Random) -> str:
    """Other pods, claims, profiles, indices, processes and times."""
    fresh = f"w{random.randrange(10**6)}-{random.choice('abcdef')}"
    for old in ("single-gpu", "pod-0", "job31-wkwpn-mig1g", "gpu-test1", "148dc683"):
        text = text.replace(old, f"{fresh}-{len(old)}")
    text = text.replace("1g.20gb", random.choice(["1g.5gb", "1g.10gb+me", "3g.40gb", "7g.80gb", "2g.35gb"]))
    text = text.replace("resourceClaims[0]", f"resourceClaims[{random.randrange(9)}]")
    return text.replace("22:40:41.196150", f"0{random.randrange(10)}:15:22.{random.randrange(10**6):06d}")


MUTATIONS: tuple[Callable[[str, Random], str], ...] = (other_names, mutations.noisy, mutations.among_ranks)


@given(st.sampled_from(sorted(CASES)), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_a_case_keeps_its_cause_whatever_names_and_lines_are_around_it(name: str, random: Random) -> None:
    text = CASES[name]["input"]
    for mutate in random.sample(MUTATIONS, random.randrange(1, len(MUTATIONS) + 1)):
        text = mutate(text, random)
    assert causes(text) == expected(name)


@pytest.mark.parametrize(
    "line",
    [
        'error: unable to recognize "claim.yaml": no matches for kind "ResourceClass" in version '
        '"resource.k8s.io/v1alpha2"',
        'resource mapping not found for name: "g" namespace: "" from "x.yaml": no matches for kind '
        '"GpuClaimParameters" in version "gpu.resource.nvidia.com/v1alpha1"',
        "Error from server (BadRequest): strict decoding error: unknown field "
        '"spec.template.spec.resourceClaims[1].source"',
        "W0101 1 reflector.go:547] failed to list *v1alpha2.ResourceClaim: the server could not find the "
        "requested resource",
    ],
)
def test_other_words_for_an_api_that_is_gone(line: str) -> None:
    assert causes(line) == ["dra-api-version-mismatch"]


@pytest.mark.parametrize(
    "line",
    [
        'no matches for kind "ResourceClaim" in version "batch/v9"',
        "applied resourceclaim.resource.k8s.io/single-gpu (resource.k8s.io/v1)",
        "deprecated: resource.k8s.io/v1alpha2 is served until 1.31",
        "created GPU instance 1g.20gb",
        "torch.OutOfMemoryError: Insufficient Resources",
    ],
)
def test_lines_that_look_like_it_are_left_alone(line: str) -> None:
    assert causes(line) == []


def refused(**fields: Any) -> Event:
    said = (
        'Error creating: Pod "train-0" is invalid: spec.resourceClaims[0]: Invalid value: '
        'core.PodResourceClaim{Name:"g"}: '
        "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
    )
    return event("FailedCreate", said, "train", kind="Job", **fields)


def test_a_controller_whose_pods_the_server_refuses() -> None:
    [finding] = of_rule(dra_node(), refused())
    assert (finding.cause, finding.subject.kind, finding.subject.name) == (
        "dra-api-version-mismatch",
        "Job",
        "train",
    )
    written = [
        document for step in finding.fix.steps for document in yaml.safe_load_all(step.manifest) if document
    ]
    assert written[0]["apiVersion"] == "resource.k8s.io/v1"
    assert written[1]["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    assert not any("'source'" in str(one) or "v1alpha" in str(one) for one in written)


def test_a_refusal_of_just_now_is_left_alone() -> None:
    assert of_rule(dra_node(), refused(first_at=ago(seconds=20))) == []


def starting(**fields: Any) -> Pod:
    return claimant("train-0", "m", phase="Pending", conditions=(), **fields)


def test_a_mig_instance_for_which_there_is_no_place() -> None:
    said = (
        NOT_PREPARED
        + "m: error creating MIG device: error creating GPU instance for '1g.20gb': Insufficient Resources"
    )
    [finding] = of_rule(dra_node(), starting(), event("FailedPrepareDynamicResources", said, "train-0"))
    assert finding.cause == "mig-placement-unavailable"
    assert finding.pods == ("research/train-0",)
    assert finding.title.startswith("Not a GPU shortage")


def test_a_claim_that_is_not_prepared_for_another_reason() -> None:
    said = NOT_PREPARED + "m: error preparing devices: timed out"
    [finding] = of_rule(dra_node(), starting(), event("FailedPrepareDynamicResources", said, "train-0"))
    assert finding.cause == "claim-not-prepared"


def test_a_pod_that_runs_by_now_is_left_alone() -> None:
    said = NOT_PREPARED + "m: error preparing devices: timed out"
    running = claimant("train-0", "m")
    assert of_rule(dra_node(), running, event("FailedPrepareDynamicResources", said, "train-0")) == []


def test_the_drivers_log_leads_to_the_pod_whose_claim_it_names() -> None:
    driver, waits = pod("dra-plugin-x", "nvidia-dra"), starting()
    held = claim("m", "gpu-0-mig-1g10gb-0", pods=(waits.key,))
    line = (
        "error creating GPU instance for '1g.10gb': Insufficient Resources request=\"&NodePrepareResourceRequest{"
        'Namespace:research,ClaimName:m}"'
    )
    told = signals_in(line, namespace=driver.namespace, pod=driver.name, container="gpus")
    given_ = dra(slice_of(mig_device()), held)
    [finding] = of_rule(dra_node(gpus=1), driver, waits, signals=told, logs_read=(driver.key,), dra=given_)
    assert finding.subject.name == "train-0"


def test_without_a_message_nothing_is_claimed() -> None:
    assert of_rule(node(), pod()) == []
