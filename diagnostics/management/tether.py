"""Becomes another program that ends when the one that started it does: `tether.py PARENT PROGRAM ARGUMENT…`.

Linux tells a process of its parent's death, however sudden (prctl PR_SET_PDEATHSIG); the wish outlives exec. Elsewhere
the program just runs. A file of its own and not a preexec function, which is unsafe beside threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, *program: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the wish was heard
        sys.exit(1)
    os.execvp(program[0], program)  # noqa: S606 - becoming the given program is the purpose


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
