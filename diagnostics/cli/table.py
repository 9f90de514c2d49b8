"""A diagnosis as text for people: a table of findings, the first step of each root, and what could not be seen."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from diagnostics.findings import Diagnosis, Finding, Severity
from diagnostics.quantities import rfc3339
from diagnostics.snapshot import Snapshot, Source
from diagnostics.text import counted, printable

STYLE = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
MARK = {Severity.CRITICAL: "■ critical", Severity.WARNING: "▲ warning", Severity.INFO: "● info"}


def render(snapshot: Snapshot, diagnosis: Diagnosis, *, rules: int, console: Console | None = None) -> None:
    """Print to the terminal (or `console`). Names from the cluster are printed as text: no markup, no escapes."""
    console = console or Console(highlight=False)
    name = printable(snapshot.cluster or snapshot.cluster_id or "cluster", 80)
    console.print(Text(f"{name}, {rfc3339(snapshot.taken_at)}: {_counts(snapshot)}"), soft_wrap=True)
    if diagnosis.findings:
        console.print(_table(diagnosis.findings))
        _print_first_steps(console, diagnosis.findings)
    elif snapshot.source(Source.PODS).state.is_usable:
        console.print("No findings.")
    else:
        console.print("Nothing could be judged: no pod could be read.")
    _print_coverage(console, diagnosis, rules)


def _counts(snapshot: Snapshot) -> str:
    return (
        f"{counted(len(snapshot.nodes), 'node')}, {counted(len(snapshot.gpus), 'GPU')}, "
        f"{counted(len(snapshot.pods), 'pod')}"
    )


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("SEVERITY", no_wrap=True)
    table.add_column("CODE", no_wrap=True)
    table.add_column("FINDING", overflow="fold")
    table.add_column("CAUSE", overflow="fold")
    table.add_column("GPUS", justify="right")
    for finding in _under_causes(findings):
        table.add_row(
            Text(MARK[finding.severity], style=STYLE[finding.severity]),
            finding.code,
            Text(("↳ " if finding.caused_by else "") + printable(finding.title, 300)),
            Text(printable(finding.cause, 60)),
            str(finding.gpus) if finding.gpus else "",
        )
    return table


def _under_causes(findings: tuple[Finding, ...]) -> list[Finding]:
    """The same findings, each root followed by all that it explains; groups in the order of their first member."""
    by_id = {finding.id: finding for finding in findings}
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        path = [finding.id]
        while (
            cause := next((c for c in by_id[path[-1]].caused_by if c in by_id), None)
        ) and cause not in path:
            path.append(cause)
        groups.setdefault(path[-1], []).append(finding)
    return [
        finding
        for root, group in groups.items()
        for finding in sorted(group, key=lambda member: member.id != root)
    ]


def _print_first_steps(console: Console, findings: tuple[Finding, ...]) -> None:
    roots = [finding for finding in findings if not finding.caused_by]
    if not roots:
        return
    console.print()
    console.print("First steps (read-only first; -o json has the whole guided fix)", style="bold")
    for finding in roots:
        step = next((s for s in finding.fix.steps if s.command), None)
        console.print(
            Text(
                f"  {finding.code} {printable(str(finding.subject), 120)}: {printable(finding.fix.summary, 300)}"
            )
        )
        if step is not None:
            console.print(Text(f"    $ {printable(step.command, 600)}", style="dim"), soft_wrap=True)


def _print_coverage(console: Console, diagnosis: Diagnosis, rules: int) -> None:
    console.print()
    for coverage in diagnosis.coverage:
        console.print(Text(f"Not seen ({coverage.code}): {printable(coverage.what, 400)}"), soft_wrap=True)
        console.print(Text(f"    cure: {printable(coverage.cure, 300)}", style="dim"), soft_wrap=True)
    blind = len(diagnosis.skipped) + len(diagnosis.failed)
    console.print(
        f"{counted(len(diagnosis.findings), 'finding')}; {blind} of {counted(rules, 'rule')} could not look."
    )
    for skipped in diagnosis.skipped:
        console.print(
            Text(f"    {skipped.code}: {printable(skipped.reason, 300)}", style="dim"), soft_wrap=True
        )
    for failed in diagnosis.failed:
        console.print(Text(f"    {failed.code} failed: {printable(failed.error, 300)}", style="red"))
