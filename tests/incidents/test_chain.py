"""Driver down, so the plugin waits, so nothing is allocatable, so pods wait: one cause with its symptoms."""

import json
from typing import Any

import pytest

from diagnostics.collect.devices import joined
from diagnostics.document import as_document
from diagnostics.findings import Diagnosis, Finding
from diagnostics.models import Incident
from diagnostics.rules import diagnose
from diagnostics.snapshot import Past
from diagnostics.views.finding_tree import tree_of
from tests.builders import node, pending_pod, pod, snapshot
from tests.pages.stored import polled
from tests.rules.stack.operator_pods import component, crashing, said, waiting_in_init
from tests.simulated import diagnosed

CHAIN = ["operator-component-failing", "device-plugin-waiting", "fewer-gpus-than-fitted", "pending-gpu-pod"]
"""Cause before symptom: driver down, plugin down, nothing allocatable, pods wait."""


def built(line: str = "Could not resolve Linux kernel version") -> Diagnosis:
    driver = component("nvidia-driver-daemonset", crashing("nvidia-driver-ctr"))
    toolkit = component("nvidia-container-toolkit-daemonset", waiting_in_init("driver-validation"))
    plugin = component("nvidia-device-plugin-daemonset", waiting_in_init("toolkit-validation"))
    host = node(allocatable={"nvidia.com/gpu": 0.0})
    pods = (driver, toolkit, plugin, pending_pod(gpus=8))
    told = said(driver, line)
    return diagnose(snapshot(host, *pods, gpus=joined((host,), pods, (), Past()), signals=told))


def chain(diagnosis: Diagnosis) -> list[Finding]:
    by_slug = {finding.slug: finding for finding in diagnosis.findings}
    assert len(by_slug) == len(diagnosis.findings), "one finding of each rule"
    assert sorted(by_slug) == sorted(CHAIN)
    return [by_slug[slug] for slug in CHAIN]


@pytest.mark.parametrize("look", [built, lambda: diagnosed("driver-build-failing")])
def test_a_driver_that_does_not_build_is_the_only_root_with_three_symptoms(look: Any) -> None:
    root, plugin, fewer, waiting = chain(look())
    assert root.cause == "driver-build-no-headers-for-kernel"
    assert root.caused_by == ()
    assert (plugin.caused_by, fewer.caused_by, waiting.caused_by) == ((root.id,), (plugin.id,), (fewer.id,))
    waits = next(e.value for e in root.evidence if e.label == "Waiting for it")
    assert "device plugin" in waits
    assert "container toolkit" in waits


def test_a_driver_that_crashes_for_no_known_reason_is_the_only_root_too() -> None:
    found = chain(built("exit status 1"))
    assert found[0].cause == "driver-crash-loop"
    assert [f.caused_by for f in found] == [(), *((f.id,) for f in found[:3])]


def test_a_pod_that_waits_for_other_reasons_is_no_symptom_of_it() -> None:
    """The driver of one node is down; the pod may only run on another, whose GPUs are taken."""
    driver = component("nvidia-driver-daemonset", crashing("nvidia-driver-ctr"))
    plugin = component("nvidia-device-plugin-daemonset", waiting_in_init("toolkit-validation"))
    sick, well = node(allocatable={"nvidia.com/gpu": 0.0}), node("gpu-2", 1)
    waits = pending_pod(node_selector={"kubernetes.io/hostname": "gpu-2"})
    pods = (driver, plugin, pod("holder", node="gpu-2"), waits)
    seen = snapshot(sick, well, *pods, gpus=joined((sick, well), pods, (), Past()))
    by_slug = {finding.slug: finding for finding in diagnose(seen).findings}
    assert set(CHAIN) <= set(by_slug)
    assert by_slug["pending-gpu-pod"].caused_by == ()


def test_the_document_says_so_too() -> None:
    diagnosis = built()
    ids = [finding.id for finding in chain(diagnosis)]
    document = json.loads(json.dumps(as_document(snapshot(), diagnosis)))
    told = {f["id"]: f["caused_by"] for f in document["findings"]}
    assert told == {ids[0]: [], ids[1]: [ids[0]], ids[2]: [ids[1]], ids[3]: [ids[2]]}


@pytest.mark.django_db
def test_the_incident_tree_has_one_root_and_the_symptoms_below_it() -> None:
    found = chain(built())
    cluster = polled(*found)
    incidents = {incident.fingerprint: incident for incident in Incident.objects.all()}
    ordered = [incidents[finding.id] for finding in found]
    for incident in ordered:
        (branch,) = tree_of(cluster, incident).roots
        below = [branch.pk]
        while branch.branches:
            (branch,) = branch.branches
            below.append(branch.pk)
        assert below == [one.pk for one in ordered]
