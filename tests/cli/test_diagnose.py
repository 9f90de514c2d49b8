"""`gpuhealth diagnose`: a table for people, JSON for machines, an exit status for scripts; nothing but GET."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from diagnostics.cli import main
from diagnostics.simulator.config import WorldConfig
from diagnostics.snapshot.stored import loads
from tests.fakes.replay import RECORDINGS, Replay, replaying
from tests.simulated import Stepping, simulated


def diagnose(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["diagnose", *arguments])


def later(folder: str, **passed: float) -> str:
    """A moment after the recording was made: its ages are minutes."""
    recorded = json.loads((RECORDINGS / folder / "index.json").read_text())["recordedAt"]
    return (datetime.fromisoformat(recorded).astimezone(UTC) + timedelta(**passed)).isoformat()


def on_recording(
    tmp_path: Path, folder: str, *arguments: str, replay_edit: Any = None
) -> tuple[Result, Replay]:
    with replaying(folder) as replay:
        kubeconfig = replay.kubeconfig(tmp_path / "kubeconfig")
        if replay_edit:
            replay_edit(replay)
        result = diagnose("--kubeconfig", str(kubeconfig), "--now", later(folder, hours=1), *arguments)
        asked = {one.method for one in replay.asked}
    assert asked <= {"GET"}
    return result, replay


def test_json_has_the_fields_that_scripts_rely_on(tmp_path: Path) -> None:
    result, _ = on_recording(tmp_path, "gpu-operator", "-o", "json")
    document = json.loads(result.output)
    assert result.exit_code == 1
    assert set(document) >= {"cluster", "taken_at", "sources", "findings", "coverage", "skipped", "failed"}
    assert set(document["sources"][0]) == {"name", "status", "detail"}
    finding = document["findings"][0]
    assert set(finding) >= {
        "id",
        "code",
        "slug",
        "severity",
        "confidence",
        "cause",
        "subject",
        "title",
        "summary",
    }
    assert set(finding) >= {"evidence", "gpus", "caused_by", "held", "fix"}
    assert set(finding["fix"]) == {"summary", "steps"}
    step = {"kind", "title", "why", "command", "manifest", "diff", "risk", "expect"}
    assert all(set(s) == step for f in document["findings"] for s in f["fix"]["steps"])
    assert document["taken_at"].endswith("Z")
    assert document["cluster"]["name"] == "lab"
    assert {c["code"] for c in document["coverage"]} == {"GPU901", "GPU903"}, (
        "no metrics, and no logs recorded"
    )
    assert all(set(c) == {"code", "what", "cure"} for c in document["coverage"])
    assert {"code", "reason"} == set(document["skipped"][0])


def test_the_table_names_findings_first_steps_and_what_could_not_look(tmp_path: Path) -> None:
    result, _ = on_recording(tmp_path, "gpu-operator")
    assert result.exit_code == 1
    assert "Driver fails on node" in result.output
    assert "$ kubectl describe" in result.output
    assert "could not look" in result.output
    assert "cure: " in result.output


def test_the_table_puts_symptoms_right_under_their_cause(tmp_path: Path) -> None:
    result, _ = on_recording(tmp_path, "partial-gang")
    table = result.output.partition("First steps")[0]
    rules = [word for word in table.split() if word.startswith("GPU3")]
    assert rules == ["GPU305", "GPU302", "GPU303"]
    assert table.index("GPU305") < table.index("↳ Job") < table.index("3 pods of Job")


def test_a_healthy_cluster_exits_with_zero_and_says_what_it_could_not_see(tmp_path: Path) -> None:
    result, _ = on_recording(tmp_path, "healthy")
    assert result.exit_code == 0
    assert "No findings." in result.output
    assert "rules could not look" in result.output


def test_min_severity_leaves_out_what_is_less_severe(tmp_path: Path) -> None:
    result, _ = on_recording(tmp_path, "gpu-operator", "-o", "json", "--min-severity", "critical")
    assert {f["severity"] for f in json.loads(result.output)["findings"]} == {"critical"}


@pytest.mark.parametrize(
    ("user", "exit_code", "unseen"),
    [
        ("as-viewer", 0, {"nodes"}),
        ("as-tenant", 2, {"nodes", "pods", "events"}),
        ("as-badtoken", 2, {"nodes", "pods", "events", "workloads", "services", "namespaces"}),
    ],
)
def test_restricted_users_are_told_what_could_not_be_seen(
    tmp_path: Path, user: str, exit_code: int, unseen: set[str]
) -> None:
    result, _ = on_recording(tmp_path, f"healthy/{user}", "-o", "json")
    document = json.loads(result.output)
    assert result.exit_code == exit_code
    assert document["findings"] == []
    refused = {s["name"] for s in document["sources"] if s["status"] not in {"ok", "absent"}}
    assert refused >= unseen
    blind = " ".join(c["what"] for c in document["coverage"] if c["code"] == "GPU903").lower()
    assert all(name in blind for name in unseen - {"workloads"})


def test_an_unreachable_server_is_a_sentence_and_status_two(tmp_path: Path) -> None:
    with replaying("healthy") as replay:
        kubeconfig = replay.kubeconfig(tmp_path / "kubeconfig")
    result = diagnose("--kubeconfig", str(kubeconfig))
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert "pods" in result.output.lower()


@pytest.mark.parametrize(
    "text", ["", "{", "apiVersion: v1\nkind: Config\n", "\x00\x01", "clusters: 7\nusers: []\ncontexts: {}"]
)
def test_a_broken_kubeconfig_is_a_sentence_and_status_two(tmp_path: Path, text: str) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(text)
    result = diagnose("--kubeconfig", str(kubeconfig))
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_saved_snapshot_says_the_same_again(tmp_path: Path) -> None:
    file = tmp_path / "cluster.snapshot"
    first, _ = on_recording(tmp_path, "partial-gang", "-o", "json", "--save", str(file))
    second = diagnose("--snapshot", str(file), "-o", "json")
    assert json.loads(second.output) == json.loads(first.output)
    assert second.exit_code == first.exit_code == 1


def test_an_anonymised_snapshot_names_nobody_and_finds_the_same(tmp_path: Path) -> None:
    file = tmp_path / "cluster.snapshot"
    plain, _ = on_recording(tmp_path, "partial-gang", "-o", "json")
    hidden, _ = on_recording(tmp_path, "partial-gang", "-o", "json", "--anonymise", "--save", str(file))
    before, after = (json.loads(result.output) for result in (plain, hidden))
    assert [(f["code"], f["cause"], f["gpus"]) for f in after["findings"]] == [
        (f["code"], f["cause"], f["gpus"]) for f in before["findings"]
    ]
    for name in ("vit-huge", "research", before["cluster"]["id"]):
        assert name not in hidden.output
        assert name not in repr(loads(file.read_bytes()))


@pytest.mark.parametrize(
    "arguments", [["--snapshot", "absent"], ["--now", "yesterday"], ["--min-severity", "bad"]]
)
def test_wrong_arguments_are_a_sentence(arguments: list[str]) -> None:
    result = diagnose(*arguments)
    assert result.exit_code not in (0, None)
    assert "Traceback" not in result.output


def test_a_one_shot_run_on_exporters_skips_the_windowed_rules_and_says_so() -> None:
    with simulated(WorldConfig(faults=("idle-loaded",)), Stepping()) as (cluster, target):
        exporters = [part for url in cluster.exporter_urls for part in ("--exporter", url)]
        result = diagnose("--kubeconfig", str(target.kubeconfig), *exporters, "-o", "json")
    document = json.loads(result.output)
    reasons = {s["code"]: s["reason"] for s in document["skipped"]}
    assert "window" in reasons["GPU501"]
    assert "window" in reasons["GPU101"]
    assert any("window" in c["what"] for c in document["coverage"])


def test_hostile_names_are_printed_as_text(tmp_path: Path) -> None:
    def edit(replay: Replay) -> None:
        def rename(listed: Any) -> None:
            for pod in listed["items"]:
                if pod["metadata"]["name"].startswith("llama"):
                    pod["metadata"]["ownerReferences"] = []
                    pod["metadata"]["name"] = "\x1b[31m[bold]$(reboot)\u202egnp"
                    for container in (*pod["spec"]["containers"], *pod["status"]["containerStatuses"]):
                        container["name"] = "\x1b[31m\u202emain"

        replay.edits["/api/v1/pods"] = rename

    result, _ = on_recording(tmp_path, "oom-inference", replay_edit=edit)
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output
    assert "[bold]$(reboot)" in result.output.replace("\n", "")


def test_diagnose_does_not_load_django() -> None:
    import subprocess
    import sys

    code = "import sys, diagnostics.cli; sys.exit(any(m.split('.')[0] == 'django' for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("content", [None, b"", b"\x7fELF no snapshot"])
def test_a_snapshot_file_that_cannot_be_read_is_told_from_findings(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "cluster.snapshot"
    if content is not None:
        file.write_bytes(content)
    result = diagnose("--snapshot", str(file))
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")


@pytest.mark.parametrize("now", ["yesterday", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_moment_that_cannot_be_is_a_sentence(now: str) -> None:
    result = diagnose("--now", now)
    assert result.exit_code == 2
    assert "is no time such as" in result.output


def test_a_cluster_of_which_nothing_was_read_is_not_said_to_have_no_findings(tmp_path: Path) -> None:
    result, _ = on_recording(tmp_path, "healthy/as-badtoken")
    assert "No findings" not in result.output
    assert "Nothing could be judged: no pod could be read." in result.output
