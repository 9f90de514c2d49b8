"""Precision and recall of each rule over the simulator's faults and their healthy twins; both have to be 1.

One scene a fault, one a twin, and the healthy cluster: each a cluster of its own, read over HTTP until its windows are
full; through its Prometheus, and with the history that earlier polls stored, where a fault shows in nothing else.
Found is a fault whose rule names its subject. False is whatever a rule says in a scene that is not about it, and
that the scene does not list among its consequences; or of another subject than the fault's.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from diagnostics.rules import catalogue, diagnose
from diagnostics.simulator.faults import CATALOGUE, TWINS
from tests.simulated import seen

Subject = tuple[str, str, str]


class Scene(NamedTuple):
    """One cluster: what is wrong in it, and what was found."""

    slug: str
    """Of its fault or twin; empty for the healthy one."""
    rule: str
    """That has to find it; empty where nothing is wrong."""
    subject: Subject
    also: frozenset[str]
    found: tuple[tuple[str, Subject], ...]
    """(rule, subject) of each finding."""


@dataclass
class Score:
    """Of one rule."""

    faults: int = 0
    hits: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float | None:
        """None where it said nothing."""
        said = self.hits + len(self.false)
        return self.hits / said if said else None

    @property
    def recall(self) -> float | None:
        """None where the simulator has no fault for it."""
        return self.hits / self.faults if self.faults else None


def scored(scenes: Iterable[Scene]) -> dict[str, Score]:
    """Slug of a rule -> its score."""
    scores: dict[str, Score] = defaultdict(Score)
    for scene in scenes:
        if scene.rule:
            own = scores[scene.rule]
            own.faults += 1
            if (scene.rule, scene.subject) in scene.found:
                own.hits += 1
            else:
                own.missed.append(scene.slug)
        for rule, subject in scene.found:
            if rule not in scene.also and (rule, subject) != (scene.rule, scene.subject):
                scores[rule].false.append(f"{scene.slug or 'healthy'} ({'/'.join(filter(None, subject))})")
    return scores


def run() -> bool:
    """Print the table; True when every rule that makes findings has precision and recall 1."""
    begun = time.perf_counter()
    scores = scored(scenes())
    took = time.perf_counter() - begun
    print(f"{len(CATALOGUE)} faults, {len(TWINS)} twins and a healthy cluster, {took:.0f} s")
    print(f"  {'rule':38} {'faults':>6} {'found':>6} {'false':>6} {'precision':>9} {'recall':>7}")
    kept = True
    for rule in catalogue():
        if rule.family == "blind_spots":
            continue
        score = scores[rule.slug]
        is_perfect = score.precision == score.recall == 1.0
        kept &= is_perfect
        print(
            f"  {f'{rule.code} {rule.slug}':38} {score.faults:6} {score.hits:6} {len(score.false):6} "
            f"{written(score.precision):>9} {written(score.recall):>7}{'' if is_perfect else '  MISSED'}"
        )
        for slug in score.missed:
            print(f"      not found: {slug}")
        for what in score.false:
            print(f"      wrongly: {what}")
    return kept


def written(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.3f}"


def scenes() -> Iterable[Scene]:
    yield Scene("", "", ("", "", ""), frozenset(), found_with())
    for fault in CATALOGUE.values():
        subject = (fault.kind, fault.namespace, fault.name)
        yield Scene(fault.slug, fault.rule, subject, frozenset(fault.also), found_with(fault.slug))
    for twin in TWINS.values():
        yield Scene(twin.slug, "", ("", "", ""), frozenset(twin.also), found_with(twin.slug))


def found_with(*faults: str) -> tuple[tuple[str, Subject], ...]:
    findings = diagnose(seen.__wrapped__(*faults)).findings
    return tuple((f.slug, (f.subject.kind, f.subject.namespace, f.subject.name)) for f in findings)
