"""The engine: every signature knows its own example, whatever a log does to a message."""

from datetime import UTC, datetime

import pytest

from diagnostics.signatures import MOST_SIGNALS, SIGNATURES, Signature, signals_in
from diagnostics.snapshot import LogSignal

GIB = 2.0**30

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 16.00 GiB. GPU 0 has a total capacity of "
    "44.53 GiB of which 187.94 MiB is free. Process 3909982 has 44.34 GiB memory in use. Of the allocated "
    "memory 43.67 GiB is allocated by PyTorch, and 335.07 MiB is reserved by PyTorch but unallocated."
)

OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 16.00 GiB (GPU 0; 44.53 GiB total capacity; 43.67 GiB already "
    "allocated; 187.94 MiB free; 44.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try "
    "setting max_split_size_mb to avoid fragmentation."
)


def read(text: str) -> tuple[LogSignal, ...]:
    return signals_in(text, namespace="research", pod="train-0", container="main")


def one(text: str) -> LogSignal:
    (signal,) = read(text)
    return signal


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.name)
def test_finds_a_signature_in_its_own_example_and_no_other(signature: Signature) -> None:
    assert [s.signal for s in read(signature.example)] == [signature.name]


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.name)
def test_finds_a_signature_in_the_middle_of_other_lines(signature: Signature) -> None:
    text = f"step 1 loss 2.5\n\nstep 2 loss 2.4\n{signature.example}\nstep 3 loss 2.3\n"
    assert signature.name in {s.signal for s in read(text)}


def test_no_two_signatures_share_a_name() -> None:
    assert len({s.name for s in SIGNATURES}) == len(SIGNATURES)


def test_says_whose_log_it_was() -> None:
    signal = signals_in(OOM, namespace="ns", pod="p", container="c", previous=True)[0]
    assert (signal.pod_key, signal.container, signal.previous) == ("ns/p", "c", True)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "step 1 loss 2.5", "out of stock", "Process 12 exited", "\x00\x1b[31m", "MiB MiB"]
)
def test_finds_nothing_in_ordinary_lines(text: str) -> None:
    assert read(text) == ()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_reads_a_message_that_a_wrapper_broke_at_blanks(width: int) -> None:
    lines, line = [], ""
    for word in OOM.split():
        if len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    wrapped = "\n".join([*lines, line])
    assert one(wrapped).numbers == one(OOM).numbers


@pytest.mark.parametrize("width", range(60, 132))
def test_reads_a_message_that_was_cut_in_the_middle_of_words(width: int) -> None:
    for message in (OOM, OLD):
        cut = "\n".join(message[i : i + width] for i in range(0, len(message), width))
        assert one(cut).numbers == one(message).numbers


def test_leaves_lines_of_equal_length_apart() -> None:
    line = "nothing of interest in this line of forty-eight chars"
    text = "\n".join([line, OOM, *[line] * 9, "RuntimeError: CUDA error: out of memory, with some mo"])
    assert [s.signal for s in read(text)] == ["torch-cuda-oom", "cuda-runtime-oom"]


@pytest.mark.parametrize(
    "prefix",
    ["[rank{}]: ", "[1,{}]<stderr>:", "worker-{}: ", "{}: ", "(RayTrainWorker pid={}, ip=10.0.0.7) ",
     "(VllmWorkerProcess pid={}) ERROR 06-30 13:53:19 [worker.py:515] "],
)  # fmt: skip
def test_tells_ranks_apart_that_write_in_between_each_other(prefix: str) -> None:
    other = OOM.replace("187.94 MiB", "99.00 MiB").replace("3909982", "77")
    (head, tail), (other_head, other_tail) = (m.split(" is free.", 1) for m in (OOM, other))
    written = ((0, head), (1, other_head), (0, f"is free.{tail}"), (1, f"is free.{other_tail}"))
    text = "\n".join(prefix.format(rank) + part for rank, part in written)
    assert [s.numbers for s in read(text)] == [one(OOM).numbers, one(other).numbers]


def test_reads_the_kubelets_time_stamp() -> None:
    signal = one(f"2026-06-01T11:58:30.123456789Z {OOM}")
    assert signal.at == datetime(2026, 6, 1, 11, 58, 30, tzinfo=UTC)


def test_takes_no_local_time_for_utc() -> None:
    assert one(f"2026-06-01 11:58:30,123 {OOM}").at is None


def test_counts_a_repeated_message_once() -> None:
    signal = one("\n".join([OOM] * 7))
    assert signal.count == 7


def test_keeps_the_newest_of_many_different_messages() -> None:
    lines = [OOM.replace("187.94", f"{n}.00") for n in range(100, 160)]
    found = read("\n".join(lines))
    assert len(found) == MOST_SIGNALS
    assert found[-1].numbers["free_bytes"] == 159 * 2.0**20


def test_reads_the_newest_preemption_count() -> None:
    line = (
        "WARNING Sequence group 1 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough "
        "KV cache space. total_num_cumulative_preemption={}"
    )
    signal = one("\n".join(line.format(n) for n in (1, 51, 101)))
    assert (signal.count, signal.numbers["preemptions_count"]) == (3, 101)


def test_takes_two_to_the_sixty_fourth_for_unknown() -> None:
    signal = one(OOM.replace("44.34 GiB", "17179869184.00 GiB"))
    assert "process_3909982_bytes" not in signal.numbers


def test_takes_an_unreadable_amount_for_unknown() -> None:
    signal = one(OOM.replace("43.67 GiB", "4.3.6.7 GiB"))
    assert "allocated_bytes" not in signal.numbers


def test_makes_the_line_printable_and_short() -> None:
    line = one(f"\x1b[31m{OOM}\x07 {'x' * 5000}").line
    assert len(line) <= 2000
    assert "\x1b" not in line


def test_orders_signals_as_the_log_does() -> None:
    text = f"RuntimeError: CUDA error: out of memory\n{OOM}\nRuntimeError: CUDA out of memory.\n"
    assert [s.signal for s in read(text)] == ["cuda-runtime-oom", "torch-cuda-oom", "cuda-oom"]


def test_survives_bytes_that_were_no_utf_8() -> None:
    text = b"\xff\xfe\x80 ".decode(errors="replace") + OOM + b"\xc3\x28".decode(errors="replace")
    assert one(text).numbers["requested_bytes"] == 16 * GIB


@pytest.mark.parametrize(
    "text",
    [
        "Tried to allocate" * 200_000,
        "CUDA out of memory. Tried to allocate 1.00 GiB. " * 100_000,
        "CUDA out of memory. Tried to allocate " + "1" * 1_000_000 + " GiB",
        "{" * 300_000 + "'total_size': 1" + "}" * 300_000,
        "used_memory\n" * 200_000,
        "| 0 N/A N/A 1 C " + " " * 500_000 + "MiB |",
        "NVRM: Xid (" + "0:" * 500_000,
        "(EngineCore pid=1 " * 100_000,
        "failed to load '" * 100_000 + "out of memory",
        "a" * 3_000_000 + OOM,
        "\n" * 3_000_000,
        " \t" * 1_000_000 + OOM,
        "HAMI-core ERROR" * 200_000 + " OOM " * 200_000,
        "1\u2028" * 500_000,
    ],
    ids=range(14),
)
def test_gets_through_a_hostile_log(text: str) -> None:
    """Bounded by construction; a pattern that backtracks would run into the test's time limit."""
    assert len(read(text)) <= len(SIGNATURES) * MOST_SIGNALS


def test_reads_the_tail_of_one_line_of_50_mb() -> None:
    assert one("x" * 50_000_000 + " " + OOM).numbers == one(OOM).numbers
