"""What holds for every rule: its code, its words, its tests, its fix; and that the docs say the same."""

from pathlib import Path

import pytest

from diagnostics.fixes import Risk, StepKind
from diagnostics.rules import RETIRED, catalogue
from diagnostics.rules.base import SECTIONS, Rule
from diagnostics.rules.documentation import limits_markdown, markdown

ROOT = Path(__file__).parent.parent
FAMILY_DIGIT = {
    "hardware": "1",
    "stack": "2",
    "scheduling": "3",
    "memory": "4",
    "waste": "5",
    "speed": "6",
    "distributed": "7",
    "frameworks": "8",
    "blind_spots": "9",
}
each_rule = pytest.mark.parametrize("rule", catalogue(), ids=lambda rule: rule.code)


def test_the_catalogue_is_not_empty_and_codes_are_unique() -> None:
    codes = [rule.code for rule in catalogue()]
    assert len(codes) >= 14
    assert len(set(codes)) == len(codes)
    assert not set(codes) & set(RETIRED)


@each_rule
def test_its_code_is_of_its_family_and_its_file_has_its_name(rule: Rule) -> None:
    assert rule.code.startswith("GPU" + FAMILY_DIGIT[rule.family])
    assert rule.module.rpartition(".")[2] == rule.slug.replace("-", "_")


@each_rule
def test_it_documents_itself_in_every_section(rule: Rule) -> None:
    assert rule.title.endswith(".")
    assert [heading for heading in SECTIONS if not rule.sections.get(heading)] == []


@each_rule
def test_it_has_tests_one_of_which_shows_when_it_is_silent(rule: Rule) -> None:
    folder = ROOT / "tests" / "rules" / rule.family
    own = folder / f"test_{rule.slug.replace('-', '_')}.py"
    path = own if own.is_file() else folder / f"test_{rule.family}.py"
    text = path.read_text()
    names = [line for line in text.splitlines() if line.startswith("def test_")]
    silent = (
        "silent",
        "not_",
        "no_",
        "well",
        "alone",
        "ignores",
        "misses_nothing",
        "without",
        "is_left",
        "never",
    )
    assert any(word in name for name in names for word in silent)


@each_rule
def test_causes_that_it_names_are_rules(rule: Rule) -> None:
    assert {*rule.caused_by, *rule.starved_by} <= {other.slug for other in catalogue()}


def test_docs_are_current() -> None:
    for name, text in (("rules.md", markdown(catalogue())), ("limits.md", limits_markdown())):
        assert (ROOT / "docs" / name).read_text() == text, f"run: python manage.py rules --markdown ({name})"


def test_every_fix_of_the_simulated_faults_reads_first_and_breaks_last() -> None:
    from tests.simulated import all_findings

    findings = all_findings()
    assert {f.slug for f in findings} >= {"scattered-job", "stuck-holder", "idle-gpu"}
    for finding in findings:
        steps = finding.fix.steps
        assert steps, finding.slug
        assert all(step.why and step.expect and step.title for step in steps), finding.slug
        assert steps[0].risk is Risk.READ_ONLY, finding.slug
        first_disruptive = next((i for i, s in enumerate(steps) if s.risk.rank >= Risk.DISRUPTIVE.rank), None)
        reads = [i for i, s in enumerate(steps) if s.risk is Risk.READ_ONLY and s.kind is StepKind.DIAGNOSE]
        assert reads, finding.slug
        assert first_disruptive is None or max(reads) < first_disruptive, finding.slug
        ranks = [s.risk.rank for s in steps if s.kind is StepKind.FIX]
        assert ranks == sorted(ranks), f"{finding.slug}: the mildest fix comes first"
        # A repair of several steps may wait for one of them to show: looking comes before it, escalating after all.
        stages = [s.kind.stage for s in steps if s.kind is not StepKind.VERIFY]
        assert stages == sorted(stages), f"{finding.slug}: {[s.title for s in steps]}"
        *_, last = [s for s in steps if s.kind is not StepKind.ESCALATE]
        assert last.kind is StepKind.VERIFY, f"{finding.slug}: what was done is verified"
        only_looks = [s for s in steps if s.kind in {StepKind.VERIFY, StepKind.ESCALATE}]
        assert all(s.risk is Risk.READ_ONLY for s in only_looks), finding.slug
