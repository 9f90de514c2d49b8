"""A GPU's memory has errors that it cannot correct, or a repair of it that waits or failed.

## Meaning
Ampere and newer replace a bad row by a spare one; that takes effect at the next reset of the GPU (pending). When no
spare row is left for it, the remap fails, and the board has to be replaced. Turing and older retire pages in the same
way. A contained error (Xid 94) ends the affected process alone.

## Impact
Pending: the GPU works on, and may meet the same bad row again. Failed, or at 63 retired pages: errors come back, and
jobs crash. Uncorrectable errors that come again end the programs that meet them.

## Evidence
Flags and counters of DCGM, by how much uncorrectable errors rose over the window, Xids 63, 92 and 94 that were seen to
happen, and the blocks "Remapped Rows" and "Retired
Pages" of `nvidia-smi -q` in a log.

## Not reported
Remapped rows of the past: they are repaired. Corrected errors, unless the driver itself calls their rate high (Xid 92).
Counters that merely stand. MIG: while instances exist the driver does not answer questions about remapped rows.

## References
https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html
https://docs.nvidia.com/deploy/dynamic-page-retirement/index.html
"""

from collections.abc import Iterator
from typing import NamedTuple

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Unjudged
from diagnostics.fixes import reset_steps
from diagnostics.limits import Limits, Thresholds
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.hardware.board_fix import board_fix, watch_fix
from diagnostics.rules.hardware.cards import Card, cards, xids_of
from diagnostics.rules.hardware.told import REMAPPED, RETIRED
from diagnostics.snapshot import Snapshot, Source
from diagnostics.xid import XidAction

FLAGS = ("row_remap_failed", "row_remap_pending", "page_retirement_pending", "ecc_uncorrectable_volatile")


class _Trouble(NamedTuple):
    """What is wrong with one board's memory, the gravest first."""

    cause: str
    title: str
    summary: str
    severity: Severity
    action: XidAction
    evidence: tuple[Evidence, ...]
    is_sure: bool = True


@rule(
    code="GPU103",
    slug="memory-errors",
    severity=Severity.WARNING,
    needs={Source.NODES, Source.METRICS},
    uses={Source.WINDOW, Source.LOGS, Source.PODS},
    caused_by=("fatal-xid",),
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per physical GPU."""
    for card in cards(snapshot):
        found = _trouble(snapshot, card, limits.of(card.subject).values)
        if found is not None:
            yield _hit(snapshot, card, found)
        elif (
            card.answers
            and card.listing(REMAPPED) is None
            and all(card.metric(flag) is None for flag in FLAGS)
        ):
            yield Unjudged(card.subject, "neither remapped rows nor ECC errors are collected for it")
        elif (
            card.metric("ecc_uncorrectable_volatile") is not None
            and card.grown("ecc_uncorrectable_volatile") is None
        ):
            yield Unjudged(card.subject, "its ECC errors have no window yet")


def _trouble(snapshot: Snapshot, card: Card, values: Thresholds) -> _Trouble | None:
    listings = [line for name in (REMAPPED, RETIRED) if (line := card.listing(name)) is not None]
    words = {key: word for line in listings for key, word in line.signal.words.items()}
    rows = card.metric("remapped_rows_uncorrectable")
    if rows is None and listings:
        rows = listings[0].signal.numbers.get("uncorrectable_count")
    facts = [line.evidence("nvidia-smi -q") for line in listings]
    if rows is not None:
        facts.append(Evidence("rows remapped so far", f"{rows:.0f}", "rows", "remapped rows, uncorrectable"))
    if card.metric("row_remap_failed") or words.get("failed") == "Yes":
        return _failed(facts)
    pages = [card.metric("retired_pages_correctable"), card.metric("retired_pages_uncorrectable")]
    retired = sum(p for p in pages if p is not None)
    if retired >= values.retired_pages_max:
        return _used_up(retired, values.retired_pages_max)
    if pending := _pending(snapshot, card, words, facts, values):
        return pending
    return _errors(snapshot, card, facts, values)


def _failed(facts: list[Evidence]) -> _Trouble:
    return _Trouble(
        "row-remap-failed",
        "a bad row of its memory could not be replaced",
        "The driver tried to replace a bad row of the GPU's memory by a spare one and failed. A reset does not mend "
        "this: the board meets NVIDIA's criterion for replacement once the field diagnostic confirms it.",
        Severity.CRITICAL,
        XidAction.SUPPORT,
        (
            Evidence("row remap failed", "yes", source="DCGM_FI_DEV_ROW_REMAP_FAILURE or nvidia-smi -q"),
            *facts,
        ),
    )


def _used_up(retired: float, most: int) -> _Trouble:
    return _Trouble(
        "page-retirement-limit",
        f"{retired:.0f} pages of its memory are retired",
        f"From {most} retired pages on a board is to be replaced.",
        Severity.CRITICAL,
        XidAction.SUPPORT,
        (Evidence("retired pages", f"{retired:.0f}", "pages", "DCGM_FI_DEV_RETIRED_SBE and _DBE"),),
    )


def _pending(
    snapshot: Snapshot, card: Card, words: dict[str, str], facts: list[Evidence], values: Thresholds
) -> _Trouble | None:
    """The flag where it is known; else Xid 63, which is written when a remap is recorded."""
    flags = (card.metric("row_remap_pending"), card.metric("page_retirement_pending"))
    told_so = words.get("pending")
    recorded = [
        x.last_at for x in xids_of(snapshot, card)
        if x.code == 63 and x.last_at and snapshot.taken_at - x.last_at <= values.xid_recent
    ]  # fmt: skip
    if any(flags) or told_so == "Yes":
        facts = [
            Evidence("repair pending", "yes", source="DCGM_FI_DEV_ROW_REMAP_PENDING or nvidia-smi -q"),
            *facts,
        ]
    elif recorded and told_so is None and all(flag is None for flag in flags):
        facts = [
            Evidence("Xid 63", f"{span(snapshot.age(recorded[0]))} ago", source="Xid metric or kernel"),
            *facts,
        ]
    else:
        return None
    return _Trouble(
        "row-remap-pending",
        "a repair of its memory waits for a reset",
        "Rows or pages of its memory were marked bad and are replaced at the next reset of the GPU. It can go on until "
        "the next maintenance; it is no case for a new board. Watch whether the count keeps rising after the reset.",
        Severity.WARNING,
        XidAction.RESET_GPU,
        tuple(facts),
        is_sure=any(flags) or told_so == "Yes",
    )


def _errors(snapshot: Snapshot, card: Card, facts: list[Evidence], values: Thresholds) -> _Trouble | None:
    recent = {
        x.code: x.last_at for x in xids_of(snapshot, card)
        if x.code in (92, 94) and x.last_at and snapshot.taken_at - x.last_at <= values.xid_recent
    }  # fmt: skip
    grown = card.grown("ecc_uncorrectable_volatile")
    for code in sorted(recent, reverse=True):
        facts = [
            Evidence(f"Xid {code}", f"{span(snapshot.age(recent[code]))} ago", source="Xid metric"),
            *facts,
        ]
    if grown:
        facts = [
            Evidence(
                "uncorrectable errors", f"{grown:.0f} more in {span(card.span)}", "errors",
                "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
            ),
            *facts,
        ]  # fmt: skip
    if grown or 94 in recent:
        is_contained = 94 in recent
        return _Trouble(
            "contained-memory-error" if is_contained else "uncorrectable-memory-errors",
            "an uncorrectable memory error" + (", contained to one process" if is_contained else ""),
            "An error in the GPU's memory could not be corrected"
            + ("; the process that met it was ended, others go on." if is_contained else ".")
            + " Reset the GPU at a convenient time; errors that come back after it are a case for the vendor.",
            Severity.WARNING,
            XidAction.RESET_GPU,
            tuple(facts),
        )
    if 92 in recent:
        return _Trouble(
            "high-correctable-error-rate",
            "a high rate of corrected memory errors",
            "The driver calls the rate of corrected errors high (Xid 92). Nothing is lost yet.",
            Severity.INFO,
            XidAction.SUPPORT,
            tuple(facts),
        )
    return None


def _hit(snapshot: Snapshot, card: Card, found: _Trouble) -> Hit:
    replace = found.action is XidAction.SUPPORT
    return Hit(
        subject=card.subject,
        cause=found.cause,
        title=f"{card.name} on {card.node}: {found.title}",
        summary=found.summary,
        evidence=(*found.evidence, *card.identity()),
        severity=found.severity,
        confidence=Confidence.HIGH if found.is_sure else Confidence.MEDIUM,
        gpus=1,
        nodes=(card.node,),
        pods=card.holders,
        fix=watch_fix(card, "No new Xid 92.", "The rate of corrected errors keeps rising.")
        if found.severity is Severity.INFO
        else board_fix(
            snapshot,
            card,
            found.action,
            summary=f"Drain {card.node} and have {card.name} replaced"
            if replace
            else f"Plan a window in which {card.name} of {card.node} can be reset",
            look=reset_steps.see_remapped_rows(
                card.gpu,
                snapshot.node_by_name.get(card.node),
                snapshot.pods_by_node.get(card.node, []),
            ),
            gone="The flag is gone and the counters stand still.",
            why_escalate="A failed remap, or errors that go on after the reset, call for a new board.",
        ),
    )
