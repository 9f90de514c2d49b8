"""Root cause over symptom, resolved in one place: which finding explains which.

A rule declares by slug what may explain its findings (`caused_by`); a link is made where both touch the same node or
pod. Causes of causes are not repeated: each finding names the nearest ones.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from diagnostics.findings import Finding


def linked(findings: Sequence[Finding], explained_by: Mapping[str, tuple[str, ...]]) -> list[Finding]:
    """`findings` with `caused_by` filled. `explained_by`: slug -> slugs that may explain it.

    A loop (two rules that explain each other) is cut: of two findings the one with the lower code is the cause.
    """
    by_slug: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_slug[finding.slug].append(finding)
    links: dict[str, list[Finding]] = {}
    for finding in findings:
        links[finding.id] = [
            cause
            for slug in explained_by.get(finding.slug, ())
            for cause in by_slug[slug]
            if cause.id != finding.id and _touch(finding, cause)
        ]
    return [msgspec.structs.replace(finding, caused_by=_nearest(finding, links)) for finding in findings]


def _touch(one: Finding, other: Finding) -> bool:
    return bool(set(one.nodes) & set(other.nodes)) or bool(set(one.pods) & set(other.pods))


def _nearest(finding: Finding, links: Mapping[str, list[Finding]]) -> tuple[str, ...]:
    causes = [c for c in links[finding.id] if not (finding in links[c.id] and finding.code < c.code)]
    farther = {far.id for cause in causes for far in links[cause.id] if far.id != finding.id}
    near = [cause.id for cause in causes if cause.id not in farther]
    return tuple(dict.fromkeys(near or [cause.id for cause in causes]))
