"""What the last poll could not see: blind spots, rules that could not look, why, and the line that cures it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from diagnostics.models import Observation
from diagnostics.rules import catalogue
from diagnostics.rules.base import Rule


@dataclass(frozen=True, kw_only=True)
class BlindSpot:
    """Something that nobody can see from here."""

    code: str
    url: str
    what: str
    cure: str


@dataclass(frozen=True, kw_only=True)
class RuleNote:
    """A rule that could not look, looked at part of the data, or broke."""

    code: str
    url: str
    unseen: str
    """What it would report; empty for a rule that the catalogue no longer has."""
    outcome: str
    why: str
    sources: tuple[str, ...]
    """That it needs and that did not come in full: to cure them is to cure it."""


def blind_spots(last: Observation) -> tuple[BlindSpot, ...]:
    return tuple(
        BlindSpot(code=raw["code"], url=rule_url(raw["code"]), what=raw["what"], cure=raw["cure"])
        for raw in last.coverage
    )


def rule_notes(last: Observation) -> tuple[RuleNote, ...]:
    """Those that broke first, then those that saw nothing, then those that saw part."""
    answers = {raw["name"]: raw["status"] for raw in last.sources}
    rules = {rule.code: rule for rule in catalogue()}
    outcomes = (
        ("failed", last.rules_failed, "error"),
        ("could not look", last.rules_skipped, "reason"),
        ("looked at part", last.rules_partial, "reason"),
    )
    return tuple(
        _note(raw, outcome, key, rules.get(raw["code"]), answers)
        for outcome, rows, key in outcomes
        for raw in rows
    )


def _note(
    raw: Mapping[str, Any], outcome: str, key: str, rule: Rule | None, answers: Mapping[str, str]
) -> RuleNote:
    needs = sorted(rule.needs) if rule and outcome != "failed" else []
    return RuleNote(
        code=raw["code"],
        url=rule_url(raw["code"]),
        unseen=rule.title if rule else "",
        outcome=outcome,
        why=raw.get(key, ""),
        sources=tuple(source for source in needs if answers.get(source, "ok") != "ok"),
    )


def rule_url(code: str) -> str:
    """Empty for a rule that the catalogue no longer has."""
    return reverse("rule_detail", args=[code]) if any(rule.code == code for rule in catalogue()) else ""
