"""A summary of the ledger as a table for people, or as JSON for scripts."""

import json
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from diagnostics.quantities import rfc3339
from diagnostics.text import printable
from diagnostics.usage import Group, Grouping, Ledger
from diagnostics.usage.spreadsheet import COLUMNS, names
from diagnostics.usage.weights import HOUR_MS


def render(name: str, by: Grouping, ledger: Ledger, console: Console) -> None:
    """The table. Names are printed as text: no markup, no escapes."""
    console.print(Text(f"{printable(name, 80)}, {_span(ledger)}, by {by}"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for column in COLUMNS[by]:
        table.add_column(column.upper(), overflow="fold")
    for column in ("GPU-HOURS", "WASTED", "COST", "COST OF WASTE"):
        table.add_column(column, justify="right")
    for group in ledger.groups:
        amounts = (_hours(group.gpu_ms), _hours(group.waste_ms), _cost(group, group.costs))
        cells = [Text(cell) for cell in names(group.name, by)]
        table.add_row(*cells, *amounts, _cost(group, group.wasted))
    console.print(table if ledger.groups else "Nothing was observed in this time.")
    for line in notes(ledger):
        console.print(Text(line), soft_wrap=True)


def notes(ledger: Ledger) -> list[str]:
    """How far and how well the figures are known."""
    through = ledger.complete_through
    if through is None or ledger.begins is None:
        return ["Nothing has been recorded of this cluster yet."]
    found = [] if ledger.begins <= ledger.start else [f"Nothing is known before {rfc3339(ledger.begins)}."]
    found += [
        "Complete."
        if through >= ledger.end
        else f"Complete through {rfc3339(through)}: what follows is not counted yet, or not finally."
    ]
    found.append(
        f"Not observed: {_hours(ledger.unobserved_ms)} of {_hours(ledger.total_ms)} GPU-hours, in no line above."
        if ledger.unobserved_ms
        else "Not observed: none of the time for which devices are known to have existed."
    )
    if ledger.backfilled_ms:
        found.append(f"Rebuilt from Prometheus afterwards: {_hours(ledger.backfilled_ms)} GPU-hours.")
    if unpriced := sum(group.unpriced_ms for group in ledger.groups):
        found.append(f"No price is known for {_hours(unpriced)} GPU-hours: they are in no cost.")
    return found


def as_json(cluster: str, by: Grouping, ledger: Ledger) -> str:
    """Names as they are, escaped; amounts in milliseconds, too, which are exact. Unknown money is absent, never 0."""
    through = ledger.complete_through
    document: dict[str, Any] = {
        "cluster": cluster,
        "from": rfc3339(ledger.start),
        "to": rfc3339(ledger.end),
        "by": by.value,
        "begins": rfc3339(ledger.begins) if ledger.begins else None,
        "complete_through": rfc3339(through) if through else None,
        "is_complete": through is not None and through >= ledger.end,
        "total_gpu_ms": ledger.total_ms,
        "unobserved_gpu_ms": ledger.unobserved_ms,
        "backfilled_gpu_ms": ledger.backfilled_ms,
        "rows": [_row(group, by) for group in ledger.groups],
    }
    return json.dumps(document, indent=2)


def _row(group: Group, by: Grouping) -> dict[str, Any]:
    name = group.name or (None,) * len(COLUMNS[by])
    return {
        **dict(zip(COLUMNS[by], name, strict=True)),
        "gpu_hours": round(group.gpu_ms / HOUR_MS, 3),
        "wasted_gpu_hours": round(group.waste_ms / HOUR_MS, 3),
        "gpu_ms": group.gpu_ms,
        "wasted_gpu_ms": group.waste_ms,
        "unpriced_gpu_ms": group.unpriced_ms,
        "costs": {
            currency: {"all": f"{cost:.2f}", "wasted": f"{group.wasted[currency]:.2f}"}
            for currency, cost in sorted(group.costs.items())
        },
    }


def _span(ledger: Ledger) -> str:
    return f"{rfc3339(ledger.start)} to {rfc3339(ledger.end)}"


def _hours(ms: int) -> str:
    return f"{ms / HOUR_MS:,.1f}"


def _cost(group: Group, costs: dict[str, Decimal]) -> str:
    """Money as far as prices are known, and `unknown` where none is."""
    if not costs:
        return "unknown"
    text = " + ".join(f"{cost:,.2f} {currency}" for currency, cost in sorted(costs.items()))
    return f"at least {text}" if group.unpriced_ms else text
