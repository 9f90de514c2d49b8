"""The shape of the code: imports go one way, modules stay short, and names say what is inside."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = {contract["id"]: contract for contract in SETTINGS["tool"]["importlinter"]["contracts"]}

LINE_LIMIT = 400
DATA_TABLES = {"diagnostics/xid.py"}
# Names of patterns and left-overs; a module is a noun of the domain.
STRAY_NAMES = {"base", "common", "core", "helpers", "lib", "managers", "misc", "services", "utils"}
NAMED_ALL_THE_SAME = {"diagnostics/rules/base.py"}

# One violation for each contract: the module that commits it, and the line.
VIOLATIONS = {
    "flow": ("diagnostics/utils.py", ""),
    "pure": ("diagnostics/text.py", "import django"),
    "rules-apart": ("diagnostics/rules/hardware/__init__.py", "import diagnostics.rules.memory"),
    "edges": ("diagnostics/incidents/__init__.py", "import kubernetes"),
    "one-chart-maker": ("diagnostics/incidents/__init__.py", "import plotly"),
    "pages-read-only": ("diagnostics/views/__init__.py", "import diagnostics.pipeline"),
    "project-on-top": ("diagnostics/pipeline.py", "import gpuhealth"),
    "simulator-alone": ("diagnostics/simulator/__init__.py", "import diagnostics.xid"),
    "simulator-unused": ("diagnostics/cli.py", "import diagnostics.simulator"),
}


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Every module that people write, as (path relative to `root`, path)."""
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if (
            name.startswith(("gpuhealth/", "diagnostics/", "tests/", "manage.py"))
            and "/migrations/" not in name
        ):
            yield name, path


def overlong(root: Path) -> dict[str, int]:
    """Lines of each module that has more than the limit and is not a data table."""
    lengths = {name: len(path.read_bytes().splitlines()) for name, path in modules(root)}
    return {name: lines for name, lines in lengths.items() if lines > LINE_LIMIT and name not in DATA_TABLES}


def stray(root: Path) -> list[str]:
    """Modules and packages with a name that says nothing of the domain."""
    return [
        name
        for name, _ in modules(root)
        if not STRAY_NAMES.isdisjoint(Path(name).with_suffix("").parts) and name not in NAMED_ALL_THE_SAME
    ]


def lint_imports(root: Path) -> tuple[int, str]:
    """Exit status and output of import-linter on the tree at `root`."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "", "NO_COLOR": "1", "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return done.returncode, done.stdout + done.stderr


def broken_contracts(output: str) -> set[str]:
    """Identifiers of the contracts that import-linter calls broken."""
    names = set(re.findall(r"^(.*?) BROKEN", output, flags=re.MULTILINE))
    return {identifier for identifier, contract in CONTRACTS.items() if contract["name"] in names}


def copy_of_the_code(folder: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", folder)
    for package in ("gpuhealth", "diagnostics"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_imports_go_the_way_that_the_contracts_say() -> None:
    status, output = lint_imports(ROOT)

    assert status == 0, output


def test_every_contract_catches_its_violation(tmp_path: Path) -> None:
    root = copy_of_the_code(tmp_path)
    for module, line in VIOLATIONS.values():
        with (root / module).open("a") as source:
            source.write(f"\n{line}\n")

    status, output = lint_imports(root)

    assert status == 1, output
    assert broken_contracts(output) == set(VIOLATIONS) == set(CONTRACTS), output


def test_the_simulator_is_kept_from_every_other_part() -> None:
    others = {
        f"diagnostics.{path.stem}"
        for path in (ROOT / "diagnostics").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    } - {"diagnostics.__init__", "diagnostics.simulator"}

    assert set(CONTRACTS["simulator-alone"]["forbidden_modules"]) == others


def test_families_of_rules_are_all_kept_apart() -> None:
    families = {
        f"diagnostics.rules.{folder.name}"
        for folder in (ROOT / "diagnostics" / "rules").iterdir()
        if (folder / "__init__.py").exists()
    }

    assert set(CONTRACTS["rules-apart"]["modules"]) == families


def test_no_module_is_overlong() -> None:
    assert overlong(ROOT) == {}


@pytest.mark.parametrize(
    ("module", "lines", "found"),
    [
        ("diagnostics/gangs.py", LINE_LIMIT, False),
        ("diagnostics/gangs.py", LINE_LIMIT + 1, True),
        ("diagnostics/xid.py", LINE_LIMIT + 1, False),
        ("tests/rules/test_gangs.py", LINE_LIMIT + 1, True),
    ],
)
def test_overlong_counts_lines(tmp_path: Path, module: str, lines: int, found: bool) -> None:
    (tmp_path / module).parent.mkdir(parents=True)
    (tmp_path / module).write_text("x = 1\n" * lines)

    assert (module in overlong(tmp_path)) is found


def test_no_module_is_named_after_a_pattern() -> None:
    assert stray(ROOT) == []


@pytest.mark.parametrize(
    "module", ["diagnostics/utils.py", "diagnostics/collect/core/pods.py", "tests/helpers.py"]
)
def test_stray_names_are_found_in_every_part_of_a_path(tmp_path: Path, module: str) -> None:
    (tmp_path / module).parent.mkdir(parents=True)
    (tmp_path / module).touch()

    assert stray(tmp_path) == [module]


def test_what_is_run_once_for_both_databases_touches_none() -> None:
    listed = re.search(r"^once=\(\n(.*?)^\)", (ROOT / ".ci" / "run").read_text(), re.DOTALL | re.MULTILINE)
    assert listed is not None
    files = [
        file
        for name in listed[1].split()
        for file in ([ROOT / name] if name.endswith(".py") else (ROOT / name).rglob("*.py"))
    ]
    assert len(files) > 100
    uses = re.compile(
        r"django_db|transactional_db|diagnostics\.(models|tasks|pipeline|incidents)|tests\.pages\.stored"
    )
    assert [str(file) for file in files if uses.search(file.read_text())] == []
