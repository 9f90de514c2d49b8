"""Rule, its metadata and sections, and the decorator that registers one."""

import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from diagnostics.findings import Blind, Hit, Severity, Unjudged
from diagnostics.limits import Limits
from diagnostics.snapshot import Snapshot, Source

Check = Callable[[Snapshot, Limits], Iterable[Hit | Unjudged | Blind]]

SECTIONS = ("Meaning", "Impact", "Evidence", "Not reported", "References")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule: what it is called, what it needs, and the function that looks.

    `needs`: without one of these sources usable, the rule is skipped. `uses`: read when there, for evidence and
    causes. `caused_by`: slugs of rules whose findings explain this one's when they touch the same pod, or the node that
    one of them is about. `starved_by`: slugs of rules whose subjects hold what this one's waits for.
    `hold`: polls that an undated fact must last before an incident opens; rules that judge age from the object's own
    timestamps set 1.
    """

    code: str
    slug: str
    severity: Severity
    needs: frozenset[Source]
    uses: frozenset[Source] = frozenset()
    caused_by: tuple[str, ...] = ()
    starved_by: tuple[str, ...] = ()
    hold: int = 2
    check: Check = field(repr=False)
    family: str
    module: str

    @property
    def title(self) -> str:
        """First line of the module's docstring."""
        return self._doc().partition("\n")[0].strip()

    @property
    def sections(self) -> dict[str, str]:
        """Section heading -> text, from the module's docstring."""
        found: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in self._doc().splitlines():
            if line.startswith("## "):
                lines = found.setdefault(line[3:].strip(), [])
            else:
                lines.append(line)
        return {heading: "\n".join(text).strip() for heading, text in found.items()}

    def _doc(self) -> str:
        return inspect.cleandoc(sys.modules[self.module].__doc__ or "")


REGISTRY: dict[str, Rule] = {}
"""Slug -> rule; filled when `rules.catalogue()` imports the families."""


def rule(
    *,
    code: str,
    slug: str,
    severity: Severity,
    needs: set[Source],
    uses: set[Source] | frozenset[Source] = frozenset(),
    caused_by: tuple[str, ...] = (),
    starved_by: tuple[str, ...] = (),
    hold: int = 2,
) -> Callable[[Check], Check]:
    """Register the decorated check under its code and slug. Raises ValueError when the slug is taken."""

    def register(check: Check) -> Check:
        if slug in REGISTRY and REGISTRY[slug].module != check.__module__:
            msg = f"rule slug {slug!r} is taken by {REGISTRY[slug].module}"
            raise ValueError(msg)
        REGISTRY[slug] = Rule(
            code=code,
            slug=slug,
            severity=severity,
            needs=frozenset(needs),
            uses=frozenset(uses),
            caused_by=caused_by,
            starved_by=starved_by,
            hold=hold,
            check=check,
            family=check.__module__.split(".")[-2],
            module=check.__module__,
        )
        return check

    return register
