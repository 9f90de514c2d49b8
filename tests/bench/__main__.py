"""Runs every benchmark, each in a process of its own, and fails when one misses its limit. Names choose some."""

from tests import parts

if __name__ == "__main__":
    parts.run("tests.bench", ("rules", "collecting", "recording", "sizes", "pages"))
