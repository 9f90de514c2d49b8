"""Runs every benchmark, each in a process of its own, and fails when one misses its limit. Names choose some."""

import importlib
import subprocess
import sys

PARTS = ("collecting", "recording", "sizes", "pages")

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--part", name]:
            sys.exit(0 if importlib.import_module(f"tests.bench.{name}").run() else 1)
        case chosen:
            if unknown := set(chosen) - set(PARTS):
                sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
            missed = [
                name
                for name in chosen or PARTS
                if subprocess.run(
                    [sys.executable, "-m", "tests.bench", "--part", name], check=False
                ).returncode
            ]
            print("missed: " + ", ".join(missed) if missed else "all limits kept")
            sys.exit(1 if missed else 0)
