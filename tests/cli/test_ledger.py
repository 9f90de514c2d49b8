"""`gpuhealth ledger`: a table for people, CSV and JSON for machines; names from the cluster are hostile."""

import csv
import io
import json
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner
from django.core.management import CommandError, call_command

from diagnostics.cli import main
from diagnostics.management.commands.ledger import moment
from diagnostics.models import Price, Workload
from tests.usage.scene import Scene, at

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene() -> Scene:
    """A busy hour of red's, a quarter of an hour of it unobserved."""
    scene = Scene()
    for minute in (*range(0, 31, 2), *range(45, 60)):
        scene.poll(minute, {"gpu-1/a": "busy"})
    scene.poll(60, {})
    return scene


def ledger(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(
        "ledger",
        f"--from={at(0).isoformat()}",
        f"--to={at(60).isoformat()}",
        *arguments,
        stdout=out,
        stderr=err,
    )
    return out.getvalue(), err.getvalue()


def rows(*arguments: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(ledger("-o", "csv", *arguments)[0])))


def document(*arguments: str) -> Any:
    return json.loads(ledger("-o", "json", *arguments)[0])


def test_the_table_says_what_is_known_and_how_well(scene: Scene) -> None:
    Price.objects.create(pattern="*", per_gpu_hour=Decimal(2))
    out, _ = ledger()
    assert "team-red" in out
    assert "1.50 USD" in out
    assert "Complete." in out
    assert "Not observed: 0.2 of 1.0 GPU-hours" in out


def test_an_unknown_price_is_not_zero(scene: Scene) -> None:
    out, _ = ledger()
    assert "unknown" in out
    assert "No price is known for 0.8 GPU-hours" in out
    assert document()["rows"][0]["costs"] == {}
    assert not any(column.startswith("cost") for column in rows()[0])


def test_what_is_not_complete_says_through_when(scene: Scene) -> None:
    scene.poll(70, {"gpu-1/a": "quiet"})
    out = io.StringIO()
    call_command("ledger", f"--from={at(-60).isoformat()}", f"--to={at(120).isoformat()}", stdout=out)
    assert "Complete through 2026-05-28T22:10:00Z" in out.getvalue()
    assert "Nothing is known before 2026-05-28T21:00:00Z" in out.getvalue()


def test_json_holds_exact_amounts(scene: Scene) -> None:
    found = document("--by", "state")
    assert found["total_gpu_ms"] == 3_600_000
    assert found["unobserved_gpu_ms"] == 900_000
    assert found["is_complete"] is True
    assert [(row["state"], row["gpu_ms"]) for row in found["rows"]] == [("effective", 2_700_000)]


@pytest.mark.parametrize("by", ["team", "namespace", "workload", "model", "state"])
def test_every_grouping_has_csv_with_unobserved_time(scene: Scene, by: str) -> None:
    found = rows("--by", by)
    assert [row["gpu_hours"] for row in found] == ["0.750", "0.250"]
    assert "(not observed)" in found[1].values()
    assert {row["complete_through"] for row in found} == {"2026-05-28T22:00:00Z"}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r\n@"])
def test_no_name_becomes_a_formula(scene: Scene, start: str) -> None:
    Workload.objects.filter(name="red").update(name=f"{start}cmd|' /C calc'!A0", namespace=f"{start}SUM(1)")
    found = rows("--by", "workload")[0]
    assert found["workload"].startswith(f"'{start.strip()}cmd")
    assert found["namespace"].startswith(f"'{start.strip()}SUM")


def test_hostile_names_are_printed_as_text(scene: Scene) -> None:
    Workload.objects.filter(name="red").update(namespace="\x1b[31m[red]\n<b>\u202e")
    for output in ("table", "csv", "json"):
        out, _ = ledger("-o", output)
        assert not {"\x1b", "\u202e"} & set(out)
        assert "[31m[red]" in out
    assert len(rows()) == 2


def test_bad_arguments_get_a_sentence(scene: Scene) -> None:
    with pytest.raises(CommandError, match="no time such as"):
        call_command("ledger", "--from=yesterday")
    with pytest.raises(CommandError, match="before --to"):
        ledger(f"--to={at(-100).isoformat()}")
    with pytest.raises(CommandError, match="no cluster 'x', but lab"):
        ledger("--cluster=x")
    Scene("other")
    with pytest.raises(CommandError, match="--cluster: lab and other"):
        ledger()


def test_a_cluster_of_which_nothing_is_known_says_so() -> None:
    with pytest.raises(CommandError, match="no cluster has been polled"):
        ledger()
    Scene("new")
    assert "Nothing has been recorded of this cluster yet" in ledger("--cluster=new")[0]


def test_the_console_script_hands_over_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[str] = []
    monkeypatch.setattr("diagnostics.cli._django", lambda *arguments: handed.extend(arguments))
    arguments = ["ledger", "--by", "state", "--from=2026-06-01", "-o", "csv", "--help"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    assert handed == arguments


def test_a_day_begins_at_midnight_where_the_site_is(settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    assert moment("2026-06-01").isoformat() == "2026-05-31T22:00:00+00:00"
    assert moment("2026-06-01T12:00").isoformat() == "2026-06-01T12:00:00+00:00"
