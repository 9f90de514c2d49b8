"""Measurements that take long, in parts: each runs in a process of its own, and says whether it kept its limits."""

import importlib
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn


def run(package: str, parts: Sequence[str]) -> NoReturn:
    """Of a package those that the command line names, or all. Each is a module with `run() -> bool`."""
    match sys.argv[1:]:
        case ["--part", name]:
            sys.exit(0 if importlib.import_module(f"{package}.{name}").run() else 1)
        case chosen:
            if unknown := set(chosen) - set(parts):
                sys.exit(f"there is no {', '.join(sorted(unknown))}, but {', '.join(parts)}")
            missed = [
                name
                for name in chosen or parts
                if subprocess.run([sys.executable, "-m", package, "--part", name], check=False).returncode
            ]
            sys.stdout.write(f"missed: {', '.join(missed)}\n" if missed else "all limits kept\n")
            sys.exit(1 if missed else 0)
