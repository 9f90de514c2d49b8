"""One pass of the rules: what is skipped, exempted, merged, linked, and what a failing rule costs."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from diagnostics.findings import Blind, Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.fixes import Fix
from diagnostics.limits import Limits, Override
from diagnostics.rules.base import Check, Rule
from diagnostics.rules.engine import run
from diagnostics.snapshot import Snapshot, Source, SourceState
from tests.builders import ago, node, owner, pod, snapshot, statuses


def hit(name: str = "train", **fields: object) -> Hit:
    defaults: dict[str, object] = {
        "subject": Subject("Job", name, "research"),
        "cause": "because",
        "title": "It is broken",
        "summary": "It is.",
        "evidence": (Evidence("Fact", "1"),),
        "fix": Fix("Mend it", ()),
        "pods": (f"research/{name}-0",),
    }
    return Hit(**(defaults | fields))  # type: ignore[arg-type]


def a_rule(check: Check, code: str = "GPU101", slug: str = "broken", **fields: object) -> Rule:
    defaults: dict[str, object] = {
        "severity": Severity.WARNING,
        "needs": frozenset({Source.PODS}),
        "family": "hardware",
        "module": __name__,
    }
    return Rule(code=code, slug=slug, check=check, **(defaults | fields))  # type: ignore[arg-type]


def yields(*items: Hit | Unjudged | Blind) -> Check:
    return lambda snapshot, limits: iter(items)


def test_a_hit_becomes_a_finding_with_a_stable_id() -> None:
    rules = [a_rule(yields(hit()))]
    first, second = (
        run(rules, snapshot(taken_at=when), Limits()).findings[0] for when in (ago(), ago(hours=1))
    )
    assert (first.code, first.slug, first.severity) == ("GPU101", "broken", Severity.WARNING)
    assert first.id == second.id


def test_the_cause_is_no_part_of_the_id() -> None:
    one, other = (run([a_rule(yields(hit(cause=c)))], snapshot(), Limits()).findings[0] for c in ("a", "b"))
    assert one.id == other.id


def test_a_missing_source_skips_the_rule_and_says_why() -> None:
    diagnosis = run([a_rule(yields(hit()))], snapshot(without=[Source.PODS]), Limits())
    assert not diagnosis.findings
    assert diagnosis.skipped[0].code == "GPU101"
    assert "pods absent" in diagnosis.skipped[0].reason


def test_a_partial_source_lets_the_rule_look_and_marks_it() -> None:
    shot = snapshot(sources=statuses(partial=[Source.PODS]))
    diagnosis = run([a_rule(yields(hit()))], shot, Limits())
    assert diagnosis.findings
    assert [p.code for p in diagnosis.partial] == ["GPU101"]


def test_without_whole_workloads_absence_proves_nothing_for_rules_on_pods() -> None:
    """The subject is the root owner: with owners unread it may be another one."""
    diagnosis = run([a_rule(yields(hit()))], snapshot(without=[Source.WORKLOADS]), Limits())
    assert diagnosis.findings
    assert [p.code for p in diagnosis.partial] == ["GPU101"]


def test_a_failing_rule_costs_only_itself() -> None:
    def broken(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
        yield hit("lost")
        raise RuntimeError("no such luck")

    diagnosis = run([a_rule(broken), a_rule(yields(hit()), "GPU102", "other")], snapshot(), Limits())
    assert [f.code for f in diagnosis.findings] == ["GPU102"]
    assert diagnosis.failed[0].error == "RuntimeError: no such luck"


def test_two_hits_on_one_subject_merge_and_the_worse_one_leads() -> None:
    mild = hit(evidence=(Evidence("Fact", "mild"),), gpus=1, waste_gpus=1.0)
    bad = hit(severity=Severity.CRITICAL, evidence=(Evidence("Fact", "bad"),), gpus=2, title="Worse")
    finding = run([a_rule(yields(mild, bad))], snapshot(), Limits()).findings[0]
    assert (finding.title, finding.severity, finding.gpus) == ("Worse", Severity.CRITICAL, 3)
    assert [e.value for e in finding.evidence] == ["bad", "mild"]
    assert finding.waste_gpus == 1.0


def test_an_annotation_on_a_pod_exempts_its_owner() -> None:
    marked = pod(
        root=owner(name="train"),
        annotations={"gpuhealth.io/exempt": "broken, other", "gpuhealth.io/exempt-reason": "warm standby"},
    )
    diagnosis = run([a_rule(yields(hit()))], snapshot(marked), Limits())
    assert not diagnosis.findings
    assert "warm standby" in diagnosis.exempted[0].reason


def test_an_exemption_of_another_rule_changes_nothing() -> None:
    marked = pod(root=owner(name="train"), annotations={"gpuhealth.io/exempt": "other"})
    assert run([a_rule(yields(hit()))], snapshot(marked), Limits()).findings


def test_an_override_changes_the_severity_and_is_named() -> None:
    limits = Limits(
        overrides=(Override(rule="broken", namespace="research", severity="info", reason="known"),)
    )
    finding = run([a_rule(yields(hit()))], snapshot(), limits).findings[0]
    assert finding.severity is Severity.INFO
    assert finding.overrides == ("severity info: known",)


def test_an_expired_override_is_over() -> None:
    limits = Limits(overrides=(Override(rule="broken", exempt=True, expires_at=ago(hours=1)),))
    assert run([a_rule(yields(hit()))], snapshot(), limits).findings


def test_an_annotation_changes_a_threshold_and_leaves_its_origin() -> None:
    seen: dict[str, object] = {}

    def looks(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
        resolved = limits.of(Subject("Job", "train", "research"))
        seen.update(minutes=resolved.values.idle_after.total_seconds() / 60, origin=resolved.origins)
        yield from ()

    marked = pod(root=owner(name="train"), annotations={"gpuhealth.io/idle-after": "2h 30m"})
    run([a_rule(looks)], snapshot(marked), Limits())
    assert seen == {"minutes": 150.0, "origin": {"idle_after": "annotation gpuhealth.io/idle-after"}}


@pytest.mark.parametrize("text", ["soon", "", "2 fortnights", "-1h"])
def test_an_unreadable_annotation_is_ignored_and_named(text: str) -> None:
    marked = pod(root=owner(name="train"), annotations={"gpuhealth.io/idle-after": text})
    limits = Limits(annotations_of=lambda subject: marked.annotations)
    resolved = limits.of(Subject("Job", "train", "research"))
    assert resolved.values == Limits().site
    assert "ignored" in resolved.origins["idle_after"]


def of_node(name: str, node_name: str = "gpu-1") -> Hit:
    return hit(subject=Subject("Node", name), nodes=(node_name,), pods=())


def causes(*rules: Rule) -> dict[str, set[str]]:
    """Name of each finding's subject -> names of those of its causes."""
    found = run(rules, snapshot(node()), Limits()).findings
    names = {f.id: f.subject.name for f in found}
    return {f.subject.name: {names[i] for i in f.caused_by} for f in found}


def test_a_symptom_names_its_cause_when_it_touches_the_node_that_is_sick() -> None:
    found = causes(
        a_rule(yields(of_node("plugin")), "GPU202", "plugin-down"),
        a_rule(
            yields(hit("waiting", nodes=("gpu-1", "gpu-2"), pods=()), hit("else", nodes=("gpu-9",), pods=())),
            "GPU303",
            "pending",
            caused_by=("plugin-down",),
        ),
    )
    assert found == {"plugin": set(), "waiting": {"plugin"}, "else": set()}


def test_two_pods_that_share_a_node_explain_nothing_and_one_pod_does() -> None:
    found = causes(
        a_rule(yields(hit("oom", nodes=("gpu-1",), pods=("a/x",))), "GPU401", "oom"),
        a_rule(
            yields(
                hit("neighbour", nodes=("gpu-1",), pods=("a/y",)),
                hit("itself", nodes=("gpu-1",), pods=("a/x",)),
            ),
            "GPU304",
            "stuck",
            caused_by=("oom",),
        ),
    )
    assert found == {"oom": set(), "neighbour": set(), "itself": {"oom"}}


def test_a_waiting_pod_is_starved_by_holders_on_a_node_that_it_could_use() -> None:
    found = causes(
        a_rule(yields(hit("holder", nodes=("gpu-1",), pods=("a/x",))), "GPU304", "stuck"),
        a_rule(
            yields(hit("waiting", nodes=("gpu-1",), pods=("a/y",))), "GPU305", "wait", starved_by=("stuck",)
        ),
    )
    assert found["waiting"] == {"holder"}


def test_a_chain_names_only_the_nearest_cause() -> None:
    found = causes(
        a_rule(yields(of_node("driver")), "GPU202", "driver"),
        a_rule(yields(of_node("lost")), "GPU201", "lost", caused_by=("driver",)),
        a_rule(
            yields(hit("wait", nodes=("gpu-1",), pods=())), "GPU303", "wait", caused_by=("driver", "lost")
        ),
    )
    assert found == {"driver": set(), "lost": {"driver"}, "wait": {"lost"}}


def test_two_rules_that_explain_each_other_make_no_loop() -> None:
    found = causes(
        a_rule(yields(of_node("one")), "GPU101", "one", caused_by=("two",)),
        a_rule(yields(of_node("two")), "GPU102", "two", caused_by=("one",)),
    )
    assert found == {"one": set(), "two": {"one"}}


def test_an_unjudged_subject_is_listed_and_a_blind_spot_is_coverage() -> None:
    subject = Subject("Job", "dark", "research")
    items = (Unjudged(subject, "no data"), Blind(what="All.", cure="Look."))
    diagnosis = run([a_rule(yields(*items))], snapshot(), Limits())
    assert diagnosis.unjudged[0].subject == subject
    assert diagnosis.coverage[0].cure == "Look."
    assert not diagnosis.findings


def test_the_worst_come_first() -> None:
    rules = [
        a_rule(yields(hit("mild"), hit("bad", severity=Severity.CRITICAL), hit("big", gpus=8))),
    ]
    found = run(rules, snapshot(), Limits()).findings
    assert [f.subject.name for f in found] == ["bad", "big", "mild"]
    assert all(f.confidence is Confidence.HIGH for f in found)


def test_a_source_that_was_never_asked_is_absent() -> None:
    assert snapshot(sources=()).source(Source.PODS).state is SourceState.ABSENT


def reads(name: str) -> Check:
    """A check that judges by one limit."""

    def looks(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
        getattr(limits.of(hit().subject).values, name)
        yield hit()

    return looks


def test_a_finding_names_the_changed_limits_that_its_rule_has_read_and_no_others() -> None:
    values = {"pending_after": timedelta(hours=2), "scatter_min_ratio": 0.5}
    limits = Limits(overrides=(Override(namespace="research", values=values, reason="batch"),))
    finding = run([a_rule(reads("pending_after"))], snapshot(), limits).findings[0]
    assert finding.overrides == ("pending_after 2 h instead of 5 min: override: batch",)


def test_a_limit_changed_for_another_rule_touches_nothing_here() -> None:
    values = {"pending_after": timedelta(hours=2)}
    limits = Limits(overrides=(Override(rule="other", values=values, reason="batch"),))
    assert run([a_rule(reads("pending_after"))], snapshot(), limits).findings[0].overrides == ()
