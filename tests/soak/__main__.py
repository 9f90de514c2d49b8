"""Runs every soak in a process of its own, and fails when one misses its limit. Names as arguments choose some."""

import importlib
import subprocess
import sys

PARTS = ("month", "kills", "backfill")

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--part", name]:
            sys.exit(0 if importlib.import_module(f"tests.soak.{name}").run() else 1)
        case chosen:
            if unknown := set(chosen) - set(PARTS):
                sys.exit(f"no such soak: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
            failed = [
                name
                for name in chosen or PARTS
                if subprocess.run(
                    [sys.executable, "-m", "tests.soak", "--part", name], check=False
                ).returncode
            ]
            print("missed: " + ", ".join(failed) if failed else "all limits kept")
            sys.exit(1 if failed else 0)
