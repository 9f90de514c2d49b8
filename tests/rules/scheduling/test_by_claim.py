"""A pod that asks for a device plugin's GPUs where only a DRA driver has any is shown the claim to ask by."""

from typing import Any

import pytest
import yaml

from diagnostics.fixes import Step
from diagnostics.rules.scheduling.claim_steps import by_claim
from diagnostics.snapshot import OwnerKey, Pod, ServedApi, Snapshot
from tests.builders import container, node, pending_pod, snapshot
from tests.claims import dra, dra_node, whole_gpus
from tests.rules.scheduling.waiting import hit

ROOT = OwnerKey("Deployment", "research", "llama", "apps/v1", "uid")


def served(version: str = "v1") -> ServedApi:
    return ServedApi("resource.k8s.io", version, "resourceclaims", "ResourceClaim")


def cluster(version: str = "v1", **fields: Any) -> Snapshot:
    given: dict[str, Any] = {"dra": dra(whole_gpus()), "apis": (served(version),)}
    return snapshot(dra_node(), **(given | fields))


def documents(step: Step) -> list[Any]:
    return list(yaml.safe_load_all(step.manifest))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_template_is_in_the_version_that_is_served(version: str) -> None:
    (step,) = by_claim(pending_pod(gpus=2, root=ROOT), cluster(version))
    template, lines = documents(step)
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert template["apiVersion"] == f"resource.k8s.io/{version}"
    assert (request["exactly"] if version == "v1" else request)["count"] == 2
    spec = lines["spec"]["template"]["spec"]
    assert spec["resourceClaims"] == [
        {"name": "gpu", "resourceClaimTemplateName": template["metadata"]["name"]}
    ]


def test_the_old_request_is_taken_out_and_the_claim_put_in() -> None:
    (step,) = by_claim(pending_pod(root=ROOT), cluster())
    (box,) = documents(step)[1]["spec"]["template"]["spec"]["containers"]
    gone = {"nvidia.com/gpu": None}
    assert box["resources"] == {"limits": gone, "requests": gone, "claims": [{"name": "gpu"}]}


def test_it_is_offered_to_a_pod_that_waits_for_what_no_node_offers() -> None:
    # A cluster that was set up for DRA alone runs no feature discovery: no label counts its GPUs.
    found = hit(node(gpus=0), pending_pod(root=ROOT), dra=dra(whole_gpus()), apis=(served(),))
    assert found.cause == "no-such-resource"
    assert "Ask for the GPUs by a claim" in [step.title for step in found.fix.steps]


@pytest.mark.parametrize(
    ("waits", "fields"),
    [
        (pending_pod(root=ROOT), {"apis": ()}),
        (pending_pod(root=ROOT), {"dra": dra()}),
        (pending_pod(containers=(container("a"), container("b"))), {}),
        (pending_pod(containers=(container("a", is_init=True),)), {}),
        (pending_pod(containers=(container(gpus=0, limits={"nvidia.com/mig-1g.10gb": 1.0}),)), {}),
    ],
    ids=["not served", "no devices", "two containers", "an init container", "a slice"],
)
def test_it_is_not_offered_where_it_would_not_be_the_same(waits: Pod, fields: dict[str, Any]) -> None:
    assert by_claim(waits, cluster(**fields)) == ()
