"""One entry of the glossary, and its texts with the limits filled in."""

import re
from collections.abc import Iterator

import msgspec

from diagnostics.limits import Thresholds
from diagnostics.rules.documentation import shown

_LIMIT = re.compile(r"\{(\w+)\}")


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A word that pages use in a sense of their own. `code` stands in backticks; `{limit}` for a limit's value,
    whose name stands among the facts."""

    slug: str
    """Its anchor on the page, and what the tag `term` is given."""
    name: str
    meaning: str
    gist: str = ""
    """The meaning in half a sentence, for legends and tips; empty where nobody needs one."""
    formula: str = ""
    unit: str = ""
    """Of its number; empty for what is none."""
    source: str = ""
    """Where it is read, or who defines it; "ours" where no source backs it."""
    see: tuple[str, ...] = ()
    """Slugs of other entries."""

    @property
    def limits(self) -> tuple[str, ...]:
        """Names of the limits in its texts, each once."""
        return tuple(dict.fromkeys(_LIMIT.findall(f"{self.meaning} {self.formula} {self.source}")))


def filled(text: str, limits: Thresholds) -> str:
    """`text` with each `{limit}` as its value in `limits`: `30 min`.

    Raises AttributeError for a limit that there is not.
    """
    return _LIMIT.sub(lambda found: shown(found[1], getattr(limits, found[1])), text)


def facts(term: Term, limits: Thresholds) -> Iterator[tuple[str, str]]:
    """(label, text) of what else is known of a term, in the order in which it is shown."""
    for label, text in (("Formula", term.formula), ("Unit", term.unit), ("Source", term.source)):
        if text:
            yield label, filled(text, limits)
    if term.limits:
        values = (f"`{name}` = {shown(name, getattr(limits, name))}" for name in term.limits)
        yield "Setting" if len(term.limits) == 1 else "Settings", ", ".join(values)
