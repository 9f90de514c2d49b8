"""The guided fixes of every fault that the simulator knows, whatever the objects of the cluster are called."""

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics.findings import Diagnosis
from diagnostics.fixes.diffs import as_text, own_manifest
from diagnostics.rules import diagnose
from diagnostics.simulator.faults import CATALOGUE
from diagnostics.snapshot import Snapshot, Workload
from tests.fixes.patching import with_diff
from tests.fixes.renamed import Advice, advice, renamed, texts, torn
from tests.simulated import ROOMY, seen

HOSTILE = {
    "quotes": ("", "a b'; rm -rf /; '$(id)`x`\n\""),
    "lines": ("", "x\ny: z\n- w"),
    "flag": ("--all=true -", ""),
    "format": ("%s{0}", "{{ 7 }}\u202e"),
    "lists": ("a,b=c", "|d&e;f>g"),
    "yaml": ("&a *b ", ": {c: d} # e"),
    "long": ("", "x" * 240),
}
SWITCHES = {
    *("-A", "-i", "-it", "-f", "--all-containers", "--previous", "--force", "--ignore-daemonsets", "--wait"),
    *("--delete-emptydir-data", "--overwrite", "--prefix", "--timestamps", "--cordon"),
}
"""Options that take no value: what follows them is a word of its own."""


def found(before: str, after: str) -> tuple[Diagnosis, dict[str, str]]:
    whole, names = called(before, after)
    return diagnose(whole), names


def called(before: str, after: str) -> tuple[Snapshot, dict[str, str]]:
    return renamed(seen(*CATALOGUE, nodes=ROOMY), before, after)


def words_of(one: Advice) -> list[str]:
    return shlex.split(one.step.command)


def documents_of(one: Advice) -> list[Any]:
    """Its manifest, and what its command carries as JSON."""
    found = list(yaml.safe_load_all(one.step.manifest)) if one.step.manifest else []
    return found + [json.loads(word) for word in carried(one)]


def carried(one: Advice) -> list[str]:
    """The patches that its command carries."""
    return [word for option, word in pairwise(words_of(one)) if option == "-p"]


def strings(one: Advice) -> Iterator[str]:
    """Each word of its command and each string of its documents."""
    patches = carried(one)
    yield from (word for word in words_of(one) if word not in patches)
    for document in documents_of(one):
        yield from texts(document)


def changed_by(one: Advice, whole: Snapshot) -> Iterator[Workload]:
    """Workloads that the step's manifest names; lines without a kind are the subject's."""
    of = one.finding.subject
    for body in yaml.safe_load_all(one.step.manifest):
        named = body.get("metadata") or {}
        key = (of.kind, of.namespace, of.name)
        if "kind" in body:
            key = (body["kind"], named.get("namespace", ""), named["name"])
        if key in whole.workload_by_key:
            yield whole.workload_by_key[key]


def corrected(one: Advice, whole: Snapshot) -> Any:
    """The workload as the step's diff makes it; nothing where it has none."""
    if not one.step.diff:
        return None
    (workload,) = changed_by(one, whole)
    return yaml.safe_load(with_diff(as_text(own_manifest(workload)), one.step.diff))


def shape(one: Advice) -> tuple[str, str, int, int]:
    """What does not depend on names, but for the `--` that keeps one from being a flag."""
    words = [word for word in words_of(one) if word != "--"]
    documents = len(documents_of(one)) + bool(one.step.diff)
    return one.finding.code, one.finding.cause, len(words), documents


def assert_survives(before: str, after: str) -> None:
    whole, names = called(before, after)
    diagnosis = diagnose(whole)
    assert diagnosis.failed == ()
    whole_names = set(names.values())
    for one in advice(diagnosis):
        for text in (*strings(one), *texts(corrected(one, whole))):
            assert not torn(text, names), f"{one}: {text!a}"
        words = words_of(one)
        for place, word in enumerate(words):
            if word in whole_names and word.startswith("-") and "--" not in words[:place]:
                last = words[place - 1]
                is_value = last.startswith("-") and last not in SWITCHES | whole_names
                assert is_value, f"{one}: {words}"


@pytest.mark.parametrize(("before", "after"), HOSTILE.values(), ids=HOSTILE)
def test_every_command_and_manifest_gives_hostile_names_back_whole(before: str, after: str) -> None:
    assert_survives(before, after)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(max_size=12).filter(lambda s: "\x00" not in s),
    st.text(max_size=40).filter(lambda s: "\x00" not in s),
)
def test_every_command_and_manifest_gives_any_name_back_whole(before: str, after: str) -> None:
    assert_survives(before, after)


@pytest.mark.parametrize(("before", "after"), HOSTILE.values(), ids=HOSTILE)
def test_a_name_adds_no_word_to_a_command_and_no_document_to_a_manifest(before: str, after: str) -> None:
    plain, hostile = found("", "")[0], found(before, after)[0]
    assert Counter(map(shape, advice(hostile))) == Counter(map(shape, advice(plain)))


def test_names_decide_nothing() -> None:
    """What is found does not depend on what it is called."""
    there = diagnose(seen(*CATALOGUE, nodes=ROOMY)).findings
    called, _ = found("", "")
    assert Counter((f.code, f.cause) for f in called.findings) == Counter((f.code, f.cause) for f in there)


def test_every_rule_that_a_fault_is_for_has_advice_that_is_looked_at() -> None:
    assert {one.finding.slug for one in advice(found("", "")[0])} >= {
        fault.rule for fault in CATALOGUE.values()
    }
