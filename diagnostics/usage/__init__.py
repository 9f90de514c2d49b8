"""The GPU-hour ledger: each device's time, exactly once.

record          a poll: marks -> pieces -> stays and sums, in the poll's own transaction
fill            unobserved time, replaced by what Prometheus knew
hours           the ledger's lines
roll_up         final hours packed, so that a month is summed at once
sums            by team, namespace, workload, model or state, with money; `summary` with the workloads that waste most
today_and_week  what the overview compares
"""

from diagnostics.usage.comparison import Spell, TodayAndWeek, today_and_week
from diagnostics.usage.filling import NobodyKnown, fill
from diagnostics.usage.groups import Group, Grouping, Ledger, Saving, Spent, Within
from diagnostics.usage.question import Asked
from diagnostics.usage.reading import Hour, complete_through, gaps, hours, open_stays
from diagnostics.usage.recording import record
from diagnostics.usage.rollups import roll_up
from diagnostics.usage.summary import NamesOf, Summary, summary, sums, workload_names

__all__ = [
    "Asked",
    "Group",
    "Grouping",
    "Hour",
    "Ledger",
    "NamesOf",
    "NobodyKnown",
    "Saving",
    "Spell",
    "Spent",
    "Summary",
    "TodayAndWeek",
    "Within",
    "complete_through",
    "fill",
    "gaps",
    "hours",
    "open_stays",
    "record",
    "roll_up",
    "summary",
    "sums",
    "today_and_week",
    "workload_names",
]
