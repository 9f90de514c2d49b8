"""The ledger of time that nobody observed, rebuilt from Prometheus by the functions of live polls.

find_gaps   now and then: what was not observed and no row covers becomes a row
open_span   a span that somebody asks for
due         the row that is to be filled next
run         fills a row, the newest chunk first, each in one transaction
"""

from diagnostics.backfill.filling import run
from diagnostics.backfill.opening import due, find_gaps, open_span, tail

__all__ = ["due", "find_gaps", "open_span", "run", "tail"]
