"""The numbers of one PyTorch message: which cause they mean, in every generation of the message."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.limits import Thresholds
from diagnostics.rules.memory import oom_numbers as oom
from diagnostics.signatures import signals_in
from tests.signatures.torch_messages import GENERATIONS, render

GIB, MIB = 2.0**30, 2.0**20
NEW = ("2.1", "2.2", "2.5", "2.9")
LIMITS = Thresholds()


def read(generation: str, **amounts: Any) -> oom.OomNumbers:
    (signal,) = signals_in(render(generation, **amounts), namespace="a", pod="b", container="c")
    return oom.oom_numbers(signal, LIMITS)


def cause(generation: str, **amounts: Any) -> str:
    return oom.verdict(read(generation, **amounts), LIMITS).cause


FULL = {
    "requested": 2 * GIB,
    "total": 80 * GIB,
    "free": 1 * GIB,
    "allocated": 77 * GIB,
    "unallocated": 0.5 * GIB,
}
SHARED = {
    "requested": 2 * GIB,
    "total": 80 * GIB,
    "free": 1 * GIB,
    "allocated": 40 * GIB,
    "unallocated": 0.5 * GIB,
}
PIECES = {
    "requested": 4 * GIB,
    "total": 80 * GIB,
    "free": 0.5 * GIB,
    "allocated": 66 * GIB,
    "unallocated": 12 * GIB,
}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        (FULL, oom.SHORTAGE),
        (SHARED, oom.OTHER_PROCESS),
        (PIECES, oom.FRAGMENTED),
        (FULL | {"requested": 75 * GIB}, oom.SINGLE_REQUEST),
        (
            PIECES | {"free": 20 * GIB, "allocated": 46 * GIB, "requested": 30 * GIB, "allowed": 60 * GIB},
            oom.CAPPED,
        ),
        (
            FULL | {"requested": 20 * MIB, "free": 4 * MIB, "unallocated": 8 * MIB, "allocated": 78 * GIB},
            oom.SHORTAGE,
        ),
    ],
)
def test_tells_the_causes_apart_in_every_generation(
    generation: str, amounts: dict[str, float], expected: str
) -> None:
    assert cause(generation, **amounts) == expected


@pytest.mark.parametrize("generation", NEW)
def test_takes_the_listed_process_that_fits_for_this_one(generation: str) -> None:
    """In a pod NVML reports host PIDs, so that PyTorch lists itself as a neighbour."""
    numbers = read(generation, **FULL, processes={4711: 78.1 * GIB})
    assert numbers.is_process_guessed
    assert numbers.others == {}
    assert oom.verdict(numbers, LIMITS).cause == oom.SHORTAGE


def test_takes_no_process_for_this_one_when_two_fit() -> None:
    numbers = read("2.5", **SHARED, processes={1: 40.7 * GIB, 2: 40.9 * GIB})
    assert numbers.process is None
    assert len(numbers.others) == 2


def test_takes_no_process_for_this_one_when_this_process_is_named() -> None:
    numbers = read("2.5", **SHARED, this_process=41 * GIB, processes={1: 40.9 * GIB})
    assert (numbers.process, numbers.is_process_guessed) == (41 * GIB, False)


def test_never_calls_the_request_what_is_missing() -> None:
    numbers = read("2.5", **FULL)
    assert numbers.missing == pytest.approx(0.5 * GIB)


@pytest.mark.parametrize("generation", NEW)
def test_finds_memory_outside_the_allocator(generation: str) -> None:
    amounts = {
        "requested": 1 * GIB,
        "total": 80 * GIB,
        "free": 1.5 * GIB,
        "allocated": 60 * GIB,
        "unallocated": 0.1 * GIB,
    }
    assert cause(generation, **amounts, this_process=78 * GIB) == oom.OUTSIDE
    assert cause(generation, **amounts, this_process=78 * GIB, pools=10 * GIB) == oom.UNKNOWN


def test_reads_the_sentinel_as_unknown() -> None:
    numbers = read("2.5", **FULL, this_process=2.0**64)
    assert numbers.process is None
    assert oom.verdict(numbers, LIMITS).cause == oom.SHORTAGE


def test_says_unknown_where_numbers_are_missing() -> None:
    assert oom.verdict(oom.OomNumbers(requested=GIB), LIMITS).cause == oom.UNKNOWN
    assert oom.verdict(oom.OomNumbers(requested=GIB, total=8 * GIB, free=0.0), LIMITS).cause == oom.UNKNOWN


amounts = st.floats(min_value=0, max_value=200 * GIB, allow_nan=False)
maybe = st.none() | amounts


@given(
    st.builds(
        oom.OomNumbers, requested=maybe, total=maybe, free=maybe, process=maybe, allocated=maybe, unallocated=maybe,
        allowed=maybe, private_pools=maybe,
    )
)  # fmt: skip
def test_has_a_sentence_for_any_numbers(numbers: oom.OomNumbers) -> None:
    verdict = oom.verdict(numbers, LIMITS)
    assert verdict.because.endswith(".")
    assert "None" not in verdict.because


@given(st.floats(min_value=0.5, max_value=4), st.sampled_from(GENERATIONS), st.booleans())
def test_says_the_same_for_a_gpu_of_another_size(scale: float, generation: str, swapped: bool) -> None:
    for known, expected in ((FULL, oom.SHORTAGE), (SHARED, oom.OTHER_PROCESS), (PIECES, oom.FRAGMENTED)):
        scaled = {name: amount * scale for name, amount in known.items()}
        assert cause(generation, **scaled, swapped=swapped) == expected


def test_the_slugs_are_distinct() -> None:
    slugs = [v for k, v in vars(oom).items() if k.isupper() and isinstance(v, str)]
    assert all(a != b for a, b in itertools.combinations(slugs, 2))
