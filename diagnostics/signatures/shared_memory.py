"""Messages about shared memory (/dev/shm) that ran out, and about disks, which are something else.

Shapes: NVIDIA/nccl (src/include/shm.h, misc/shmutils.cc), pytorch/pytorch (torch/utils/data,
aten/src/ATen/MapAllocator.cpp), Python's multiprocessing, ray-project/ray (object store) and triton-inference-server
(python backend).
"""

from diagnostics.signatures.grammar import Signature

SIGNATURES = (
    Signature(
        name="nccl-shm-full",
        needles=("posix_fallocate", "creating shared memory segment", "failed to extend /dev/shm"),
        pattern=r"posix_fallocate failed ?: No space left on device"
        r"|creating shared memory segment (?P<segment>\S{1,80}) \(size (?P<wanted_bytes>\d{1,15})\)"
        r"|failed to extend /dev/shm/\S{1,80} to (?P<extended_bytes>\d{1,15} bytes)",
        is_repeated=True,
        example="gpu-3:71:92 [3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
    ),
    Signature(
        name="dataloader-bus-error",
        needles=("bus error encountered in worker", "killed by signal: Bus error"),
        pattern=r"bus error encountered in worker.{0,120}?shared memory"
        r"|DataLoader worker \(pid\(?s?\)? ?(?P<worker>[\d, ]{1,40})\) is killed by signal: Bus error",
        is_repeated=True,
        example="ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
        "(shm).",
    ),
    Signature(
        name="torch-shm-full",
        needles=("shared memory object </", "to file </", "from file </"),
        pattern=r"unable to (?:open shared memory object|write to file|mmap \d{1,15} bytes from file|resize file) "
        r"</[\w./-]{1,120}>.{0,60}?"
        r"(?:No space left on device|Cannot allocate memory) ?\((?:28|12)\)",
        example="RuntimeError: unable to open shared memory object </torch_52868_1950128645_2> in read-write mode: No "
        "space left on device (28)",
    ),
    Signature(
        name="dev-shm-no-space",
        needles=("/dev/shm",),
        pattern=r"No space left on device:? ?\S{0,3}/dev/shm/|/dev/shm/\S{1,120}:? .{0,80}?No space left on device"
        r"|shared memory (?:region|pool).{0,120}?/dev/shm.{0,80}?No space left on device",
        example="OSError: [Errno 28] No space left on device: '/dev/shm/psm_1a2b3c4d'",
    ),
    Signature(
        name="ray-shm-small",
        needles=("instead of /dev/shm because /dev/shm has only",),
        pattern=r"instead of /dev/shm because /dev/shm has only (?P<shm_bytes>\d{1,15} bytes)",
        example="WARNING services.py:2009 -- WARNING: The object store is using /tmp instead of /dev/shm because "
        "/dev/shm has only 67108864 bytes available. This will harm performance!",
    ),
    Signature(
        name="sigbus-child",
        needles=("Signal 7 (SIGBUS)", "exitcode"),
        pattern=r"Signal 7 \(SIGBUS\) received by PID (?P<pid>\d{1,10})|exitcode ?: (?P<return_code>-7)\b",
        example="traceback : Signal 7 (SIGBUS) received by PID 4711",
    ),
    Signature(
        name="bus-error",
        needles=("Bus error",),
        pattern=r"(?:^|[\s:])Bus error(?: \(core dumped\)|: nonexistent physical address| \(7\)|(?=\s*$|\s*\n))"
        r"|Caught signal 7 \(Bus error",
        is_one_line=True,
        example="[gpu-3:71:0:92] Caught signal 7 (Bus error: nonexistent physical address)",
    ),
    Signature(
        name="disk-full",
        needles=("No space left on device",),
        pattern=r"No space left on device(?: \(os error 28\))?:? ['\"](?P<path>/(?!dev/shm)[^'\"\n]{1,160})['\"]"
        r"|(?P<target>/(?!dev/shm)[\w./-]{3,160}): No space left on device",
        is_one_line=True,
        example="OSError: [Errno 28] No space left on device: '/workspace/checkpoints/step-4000/optim.pt'",
    ),
)
