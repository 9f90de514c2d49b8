"""Messages about HOST memory: killed processes, refused allocations, and optimizer states kept on the CPU.

None of them speaks of GPU memory. A process ended by signal 9 while its container lives on was most likely
killed by the kernel for memory; a container that was ended says so itself (reason OOMKilled).
"""

from diagnostics.signatures.grammar import Signature

SIGNATURES = (
    Signature(
        name="deepspeed-child-killed",
        needles=("exits with return code",),
        pattern=r"exits with return code = (?P<return_code>-9)\b",
        example="[ERROR] [launch.py:324:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', "
        "'--local_rank=0'] exits with return code = -9",
    ),
    Signature(
        name="torchrun-child-killed",
        needles=("exitcode", "Signal 9 (SIGKILL)"),
        pattern=r"exitcode ?: (?P<return_code>-9)\b(?: \(pid: (?P<pid>\d{1,10})\))?|Signal 9 \(SIGKILL\) "
        r"received by PID"
        r" (?P<killed_pid>\d{1,10})",
        example="exitcode  : -9 (pid: 4711)",
    ),
    Signature(
        name="dataloader-killed",
        needles=("DataLoader worker",),
        pattern=r"DataLoader worker \(pid (?P<pid>\d{1,10})\) is killed by signal: Killed",
        example="RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
    ),
    Signature(
        name="ray-low-memory",
        needles=("due to the node running low on memory",),
        pattern=r"(?:was|were) killed due to the node running low on memory",
        fields={
            "used": r"was (?P<used_bytes>SZ) ?/ ?(?P<total_bytes>SZ) \("
            r"(?P<used_ratio>0?\.\d{1,9}|1\.0{1,9})\)",
            "threshold": r"memory usage threshold of (?P<threshold_ratio>\d?\.\d{1,9})",
        },
        example="ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory. "
        "Memory on the node (IP: 10.0.0.47) where the task was running was 54.86GB / 57.60GB (0.952354), "
        "which exceeds the memory usage threshold of 0.95.",
    ),
    Signature(
        name="tensorflow-host-oom",
        needles=("OOM when allocating tensor",),
        pattern=r"OOM when allocating tensor with shape ?\[(?P<shape>[\d,]{1,80})\] and type "
        r"(?P<type>\w{1,20})"
        r" on \S{0,120}device:CPU:\d{1,3} by allocator (?P<allocator>\w{1,40})",
        example="ResourceExhaustedError: OOM when allocating tensor with shape[1024,8192] and type float on "
        "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
    ),
    Signature(
        name="torch-host-oom",
        needles=("DefaultCPUAllocator",),
        pattern=r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory): you tried to allocate"
        r" (?P<requested_bytes>SZ)",
        example="RuntimeError: [enforce fail at alloc_cpu.cpp:114] . DefaultCPUAllocator: can't allocate "
        "memory: you tried to allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)",
    ),
    Signature(
        name="kernel-oom-kill",
        needles=("out of memory: Kill",),
        pattern=r"[Mm]emory cgroup out of memory: Kill(?:ed)? process (?P<pid>\d{1,10}) "
        r"\((?P<process>[^)\n]{1,40})\)",
        example="Memory cgroup out of memory: Killed process 4711 (python3) total-vm:84123456kB, "
        "anon-rss:33544432kB",
    ),
    Signature(
        name="cpu-offload",
        needles=("CPU Offload", "Adam Optimizer #", "optimizer offload to cpu", "offload_optimizer"),
        pattern=r"CPU Offload: True|Adam Optimizer #\d{1,4} is created with \S{1,20} arithmetic capability"
        r"|optimizer offload to cpu|offload_optimizer.{0,80}?device['\"]?[:=] ?['\"]?cpu",
        is_repeated=True,
        example="[INFO] [stage_1_and_2.py:151:__init__] CPU Offload: True",
    ),
    Signature(
        name="deepspeed-host-memory",
        needles=("CPU Virtual Memory",),
        pattern=r"CPU Virtual Memory: used = (?P<used_bytes>SZ), percent = (?P<used_percent>[\d.]{1,6})",
        is_repeated=True,
        example="[INFO] [utils.py:838:see_memory_usage] CPU Virtual Memory:  used = 28.43 GB, percent = "
        "22.6%",
    ),
    Signature(
        name="deepspeed-gpu-memory",
        needles=("Max_MA",),
        pattern=r"\bMA (?P<allocated_bytes>SZ) Max_MA (?P<peak_bytes>SZ) CA (?P<cached_bytes>SZ)",
        is_repeated=True,
        example="[INFO] [utils.py:830:see_memory_usage] MA 11.76 GB         Max_MA 11.76 GB         CA 11.77 "
        "GB",
    ),
)
