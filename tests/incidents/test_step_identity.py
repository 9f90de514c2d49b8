"""Which step was checked off: known again by what it says, not by what stands around it."""

import msgspec

from diagnostics.fixes import Fix, Risk, Step, StepKind
from diagnostics.incidents.steps import shown_steps

STEP = Step(kind=StepKind.FIX, title="t", why="w", risk=Risk.SAFE, expect="e", manifest="spec: {replicas: 2}")


def identity(**changes: str) -> str:
    return shown_steps(Fix("s", (msgspec.structs.replace(STEP, **changes),)))[0].digest


def test_a_step_stays_the_same_when_lines_around_its_change_become_others() -> None:
    assert identity(diff="- replicas: 1") == identity(diff=" minReady: 9\n- replicas: 1") == identity()


def test_a_step_that_changes_something_else_is_another() -> None:
    assert identity(manifest="spec: {replicas: 3}") != identity()
