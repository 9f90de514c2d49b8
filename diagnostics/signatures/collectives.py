"""Messages of collective communication that explain why a rank was ended by others, and not for memory.

Shapes: pytorch/pytorch torch/csrc/distributed/c10d (ProcessGroupWrapper.cpp, ProcessGroupNCCL.cpp).
"""

from diagnostics.signatures.grammar import Signature

SIGNATURES = (
    Signature(
        name="collective-fingerprint",
        needles=("CollectiveFingerPrint",),
        pattern=r"\[Rank (?P<rank_index>\d{1,6})\] .{0,80}CollectiveFingerPrint\(SequenceNumber="
        r"(?P<sequence_count>\d{1,15})",
        is_repeated=True,
        example="[I ProcessGroupWrapper.cpp:562] [Rank 0] Running collective: "
        "CollectiveFingerPrint(SequenceNumber=1277, OpType=ALLREDUCE, TensorShape=[], TensorDtypes=Float)",
    ),
    Signature(
        name="collective-timeout",
        needles=("Watchdog caught collective operation timeout",),
        pattern=r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum="
        r"(?P<sequence_count>\d{1,15})",
        is_repeated=True,
        example="[E ProcessGroupNCCL.cpp:616] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1277, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600123 "
        "milliseconds",
    ),
)
