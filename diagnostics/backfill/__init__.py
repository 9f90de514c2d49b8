"""The ledger of time that nobody observed, rebuilt from Prometheus by the functions of live polls.

open_gaps   after a poll: what is to be filled becomes a row
find_gaps   now and then: what the ledger calls unobserved and no row covers
due         the row that is to be filled next
run         fills a row, the newest chunk first, each in one transaction
"""

from diagnostics.backfill.filling import run
from diagnostics.backfill.opening import due, find_gaps, open_gaps, open_span, tail

__all__ = ["due", "find_gaps", "open_gaps", "open_span", "run", "tail"]
