"""What a MIG instance weighs: its share of the compute slices of its board. Pure."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from diagnostics.gpu_models import mig_slices

_PROFILE = re.compile(r"(?:(\d+)c\.)?(\d+)g\b")


class Weight(NamedTuple):
    """`parts` of `whole` compute slices of a board, from slice `offset` on (`stretches.share`)."""

    offset: int = 0
    parts: int = 1
    whole: int = 1


WHOLE_BOARD = Weight()


def compute_slices(profile: str) -> int:
    """Compute slices of a profile: `3g.40gb` has 3, the compute instance `1c.3g.40gb` 1; 1 where it does not say."""
    found = _PROFILE.match(profile)
    return max(1, int(found[1] or found[2])) if found else 1


def alone(profile: str, model: str) -> Weight:
    """Weight of an instance on a board that nobody names."""
    parts = compute_slices(profile)
    return Weight(0, parts, max(parts, mig_slices(model)))


def side_by_side(profiles: Sequence[str], model: str) -> tuple[list[Weight], Weight | None]:
    """Weights of the instances of one board, in their order, and of the slices that none uses (None: none is left).

    They sum to the whole board.
    """
    parts = [compute_slices(profile) for profile in profiles]
    used = sum(parts)
    whole = max(used, mig_slices(model))
    found = [Weight(sum(parts[:i]), one, whole) for i, one in enumerate(parts)]
    return found, Weight(used, whole - used, whole) if used < whole else None
