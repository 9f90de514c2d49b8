"""What every make target does first: `.ci/environment` makes .venv, once, with a recent enough Python."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Stands in for every Python: tells its version, "makes" a virtual environment, and notes what it is told.
PYTHON = """#!/bin/bash
echo "$(basename "$0") $*" >>"$CALLS"
case "$*" in
-c*) exit "$TOO_OLD" ;;
--version) echo Python 3.13.0 ;;
"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
"-m pip"*) exit "$PIP_STATUS" ;;
esac
"""


class Clone:
    """A clone of the project's packaging alone, on a machine whose Pythons only pretend."""

    def __init__(self, root: Path) -> None:
        self.root = root / "clone"
        self.calls = root / "calls"
        self.calls.touch()
        self.programs = root / "bin"
        self.programs.mkdir()
        for name in ("python3.13", "python3.12", "python3"):
            (self.programs / name).write_text(PYTHON)
            (self.programs / name).chmod(0o755)
        self.root.mkdir()
        for name in (".ci", "requirements"):
            shutil.copytree(ROOT / name, self.root / name)
        shutil.copy(ROOT / "pyproject.toml", self.root)

    def make(self, kind: str, *, too_old: int = 0, pip_status: int = 0) -> subprocess.CompletedProcess[str]:
        self.calls.write_text("")
        return subprocess.run(
            [self.root / ".ci" / "environment", kind],
            env={
                "PATH": f"{self.programs}:/usr/bin:/bin",
                "CALLS": str(self.calls),
                "TOO_OLD": str(too_old),
                "PIP_STATUS": str(pip_status),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def installed(self) -> list[str]:
        """What pip was told to install by the last run."""
        return [
            call.split(" install ")[1] for call in self.calls.read_text().splitlines() if " install " in call
        ]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_installs_hashed_requirements_then_the_project(clone: Clone) -> None:
    made = clone.make("runtime")

    assert made.returncode == 0, made.stderr
    assert clone.installed() == [
        "--require-hashes -r requirements/build.txt -r requirements/runtime.txt",
        "--no-deps --no-build-isolation --editable .",
    ]


def test_takes_the_most_recent_python(clone: Clone) -> None:
    clone.make("runtime")

    assert "python3.13 -m venv --clear .venv" in clone.calls.read_text()


def test_a_second_run_does_nothing(clone: Clone) -> None:
    clone.make("dev")

    again = clone.make("dev")

    assert (again.returncode, again.stdout, clone.calls.read_text()) == (0, "", "")


def test_the_environment_for_development_serves_for_running(clone: Clone) -> None:
    clone.make("dev")

    clone.make("runtime")

    assert clone.calls.read_text() == ""


def test_the_environment_for_running_does_not_serve_for_development(clone: Clone) -> None:
    clone.make("runtime")

    clone.make("dev")

    assert clone.installed()[0] == "--require-hashes -r requirements/build.txt -r requirements/dev.txt"


def test_changed_requirements_are_installed_into_the_same_environment(clone: Clone) -> None:
    clone.make("dev")
    with (clone.root / "requirements" / "dev.txt").open("a") as requirements:
        requirements.write("# changed\n")

    clone.make("dev")

    assert clone.installed()
    assert "-m venv" not in clone.calls.read_text()


def test_a_file_that_is_only_touched_changes_nothing(clone: Clone) -> None:
    clone.make("dev")
    os.utime(clone.root / "requirements" / "dev.txt", (0, 0))

    clone.make("dev")

    assert clone.calls.read_text() == ""


def test_an_installation_that_failed_is_tried_again(clone: Clone) -> None:
    failed = clone.make("dev", pip_status=1)
    again = clone.make("dev")

    assert (failed.returncode, again.returncode) == (1, 0)
    assert clone.installed()


def test_a_moved_folder_gets_a_new_environment(clone: Clone) -> None:
    clone.make("dev")
    clone.root = clone.root.rename(clone.root.with_name("elsewhere"))

    clone.make("dev")

    assert "-m venv --clear .venv" in clone.calls.read_text()


def test_says_what_to_install_where_python_is_too_old(clone: Clone) -> None:
    made = clone.make("dev", too_old=1)

    assert made.returncode == 1
    assert "Python 3.12 or later" in made.stderr
    assert "apt-get install" in made.stderr
    assert not (clone.root / ".venv").exists()
