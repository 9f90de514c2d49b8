"""Root cause over symptom, resolved in one place: which finding explains which.

A rule declares by slug what may explain its findings: `caused_by` for what befalls the same pod or the same GPU, or the
node that one of the two is about; `starved_by` for what holds, on a node that the waiting pod could use, the room that
it lacks. Two pods that merely share a node explain nothing. Causes of causes are not repeated: each finding names the
nearest ones.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from diagnostics.findings import Finding
from diagnostics.rules.base import Rule


def linked(findings: Sequence[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """`findings` with `caused_by` filled. `rules`: slug -> rule.

    A loop (two rules that explain each other) is cut: of two findings the one with the lower code is the cause.
    """
    by_slug: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_slug[finding.slug].append(finding)
    links: dict[str, list[Finding]] = {}
    for finding in findings:
        links[finding.id] = [
            cause
            for slug in (*rules[finding.slug].caused_by, *rules[finding.slug].starved_by)
            for cause in by_slug[slug]
            if cause.id != finding.id
            and _explains(cause, finding, starves=slug in rules[finding.slug].starved_by)
        ]
    return [msgspec.structs.replace(finding, caused_by=_nearest(finding, links)) for finding in findings]


def _explains(cause: Finding, symptom: Finding, *, starves: bool) -> bool:
    if set(cause.pods) & set(symptom.pods) or _key(cause) == _key(symptom):
        return True
    about_a_node = "Node" in {cause.subject.kind, symptom.subject.kind}
    return (starves or about_a_node) and bool(set(cause.nodes) & set(symptom.nodes))


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.subject.kind, finding.subject.namespace, finding.subject.name


def _nearest(finding: Finding, links: Mapping[str, list[Finding]]) -> tuple[str, ...]:
    causes = [c for c in links[finding.id] if not (finding in links[c.id] and finding.code < c.code)]
    farther = {far.id for cause in causes for far in links[cause.id] if far.id != finding.id}
    near = [cause.id for cause in causes if cause.id not in farther]
    return tuple(dict.fromkeys(near or [cause.id for cause in causes]))
