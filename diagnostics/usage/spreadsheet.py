"""A summary of the ledger as CSV for spreadsheets. Pure."""

import csv
import io
from decimal import Decimal

from diagnostics.quantities import rfc3339
from diagnostics.snapshot import State
from diagnostics.text import printable
from diagnostics.usage.groups import Grouping, Ledger, Name
from diagnostics.usage.weights import HOUR_MS

COLUMNS = {
    Grouping.TEAM: ("team",),
    Grouping.NAMESPACE: ("namespace",),
    Grouping.WORKLOAD: ("kind", "namespace", "workload"),
    Grouping.MODEL: ("model",),
    Grouping.STATE: ("state",),
}
NOBODY, UNOBSERVED = "(held by nobody)", "(not observed)"
FORMULA = ("=", "+", "-", "@")
"""A spreadsheet takes a cell that begins with one of these for a formula (OWASP, "CSV Injection")."""


def as_csv(by: Grouping, ledger: Ledger) -> str:
    """One line a group and one for unobserved time; each says how far the ledger is complete.

    Hours by state stand in columns of their own. Unknown money is an empty cell, never 0.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    currencies = ledger.currencies
    money = [f"{what}_{currency}" for currency in currencies for what in ("cost", "cost_of_waste")]
    through = rfc3339(ledger.complete_through) if ledger.complete_through else ""
    hours = ("gpu_hours", "wasted_gpu_hours", "unpriced_gpu_hours")
    states = [state for state in State if state in ledger.whole.states]
    header = [*COLUMNS[by], *hours, *money, "complete_through", *(f"{state}_gpu_hours" for state in states)]
    writer.writerow([safe_cell(cell) for cell in header])
    for group in ledger.groups:
        amounts = [_decimals(ms) for ms in (group.gpu_ms, group.waste_ms, group.unpriced_ms)]
        costs = [
            f"{kind[currency]:.2f}" if currency in kind else ""
            for currency in currencies
            for kind in (group.costs, group.wasted)
        ]
        spent = [_decimals(group.states[s].gpu_ms if s in group.states else 0) for s in states]
        writer.writerow([*map(safe_cell, names(group.name, by)), *amounts, *costs, through, *spent])
    blank = [""] * (len(COLUMNS[by]) - 1)
    none = ["", "", *[""] * len(money)]
    writer.writerow(
        [UNOBSERVED, *blank, _decimals(ledger.unobserved_ms), *none, through, *[""] * len(states)]
    )
    return out.getvalue()


def safe_cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def names(name: Name, by: Grouping) -> list[str]:
    """What a group is called, in a cell for each of COLUMNS."""
    if name is None:
        return [NOBODY, *[""] * (len(COLUMNS[by]) - 1)]
    return [printable(part, 253) or "(unknown)" for part in name]


def _decimals(ms: int) -> str:
    return f"{Decimal(ms) / HOUR_MS:.3f}"
