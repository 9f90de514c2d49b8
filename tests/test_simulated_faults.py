"""Every fault of the simulator is found by its rule, its healthy twin is not, and a healthy cluster is silent."""

import pytest

from diagnostics.rules import catalogue
from diagnostics.simulator.faults import CATALOGUE, TWINS
from diagnostics.snapshot import Source
from tests.simulated import ROOMY, all_findings, diagnosed, diagnosed_through_prometheus


def slugs(*faults: str) -> set[str]:
    return {finding.slug for finding in diagnosed(*faults).findings}


@pytest.mark.parametrize("slug", CATALOGUE)
def test_each_fault_is_found_by_its_rule_at_its_subject(slug: str) -> None:
    fault = CATALOGUE[slug]
    found = {(f.slug, f.subject.kind, f.subject.namespace, f.subject.name) for f in diagnosed(slug).findings}
    assert (fault.rule, fault.kind, fault.namespace, fault.name) in found


@pytest.mark.parametrize("slug", CATALOGUE)
def test_each_fault_is_found_by_no_other_rule(slug: str) -> None:
    fault = CATALOGUE[slug]
    assert slugs(slug) <= {fault.rule, *fault.also}


@pytest.mark.parametrize("slug", TWINS)
def test_each_healthy_twin_is_left_alone(slug: str) -> None:
    assert slugs(slug) <= set(TWINS[slug].also)


def test_a_healthy_cluster_is_silent_and_whole() -> None:
    diagnosis = diagnosed()
    assert diagnosis.findings == ()
    assert diagnosis.failed == ()
    blind = {rule.code for rule in catalogue() if Source.USAGE in rule.needs}
    assert {rule.code for rule in diagnosis.skipped} == blind, "there is no Prometheus, and they say so"
    assert diagnosis.coverage == ()
    assert diagnosis.unjudged == ()


def test_a_healthy_cluster_with_a_prometheus_is_silent_and_nothing_is_skipped() -> None:
    diagnosis = diagnosed_through_prometheus()
    assert diagnosis.findings == ()
    assert diagnosis.failed == ()
    assert diagnosis.skipped == ()
    assert diagnosis.coverage == ()
    assert diagnosis.unjudged == ()


def test_all_faults_at_once_hide_none() -> None:
    found = {finding.slug for finding in all_findings()}
    assert found >= {fault.rule for fault in CATALOGUE.values()}
    assert diagnosed(*CATALOGUE, nodes=ROOMY).failed == ()
