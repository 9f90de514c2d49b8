"""Messages of collective communication: why a rank was ended by others, how many ranks there are, what they talk over.

Shapes: pytorch/pytorch torch/csrc/distributed/c10d (ProcessGroupWrapper.cpp, ProcessGroupNCCL.cpp); NVIDIA/nccl
src/init.cc and src/transport, at NCCL_DEBUG=INFO.
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
    Signature(
        name="nccl-communicator",
        needles=(" nranks ",),
        pattern=r"NCCL INFO (?:\w{1,30} )?comm 0x[0-9a-f]{1,16} rank (?P<rank_index>\d{1,7}) nranks "
        r"(?P<ranks_count>\d{1,7})\b",
        before=120,
        reach=40,
        example="worker-0:29:65 [0] NCCL INFO comm 0xbc17190 rank 1 nranks 8 cudaDev 0 nvmlDev 0 busId 47000",
    ),
    Signature(
        name="nccl-path",
        needles=(" via P2P", " via SHM", " via NET"),
        pattern=r"NCCL INFO Channel \d{1,3}(?:/\d{1,3})? : \d{1,7}\[\w{1,12}\] -> \d{1,7}\[\w{1,12}\](?: \[\w{1,8}\])? "
        r"via (?P<transport>P2P|SHM|NET)\b",
        before=120,
        reach=20,
        example="worker-0:29:65 [0] NCCL INFO Channel 00/02 : 7[0] -> 0[0] [receive] via NET/IB/0",
    ),
)
