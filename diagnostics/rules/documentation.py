"""The catalogue as Markdown: `docs/rules.md` is this text, generated from the rules themselves."""

from collections.abc import Iterable

from diagnostics.rules.base import Rule

HEAD = """# Rules

Generated from the rules by `python manage.py rules --markdown`; do not edit. A code is never used again for something
else. Numbers in `code font` are limits: their defaults, units and sources stand in [limits.md](limits.md).
"""


def markdown(rules: Iterable[Rule]) -> str:
    """One chapter per rule: name, severity, what it needs, and its sections."""
    rules = list(rules)
    lines = [HEAD, "| Code | Rule | Severity | What it reports |", "|---|---|---|---|"]
    lines += [
        f"| [{r.code}](#{r.code.lower()}-{r.slug}) | {r.slug} | {r.severity} | {r.title} |" for r in rules
    ]
    for rule in rules:
        needs = ", ".join(sorted(rule.needs)) or "nothing"
        explained = ", ".join(rule.caused_by)
        lines += [
            "",
            f"## {rule.code} {rule.slug}",
            "",
            rule.title,
            "",
            f"Severity {rule.severity}; needs {needs}.",
        ]
        if explained:
            lines.append(f"May be explained by: {explained}.")
        for heading, text in rule.sections.items():
            lines += ["", f"### {heading}", "", text]
    return "\n".join(lines) + "\n"
