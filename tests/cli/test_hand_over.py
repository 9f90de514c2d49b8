"""Commands that hand over to Django say what is wrong with the settings in a sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("folder", "variables", "words"),
    [
        ("/dev/null/data", {}, "no secret key is given and none can be kept"),
        (None, {"GPUHEALTH_DATABASE_URL": "nonsense"}, "GPUHEALTH_DATABASE_URL begins neither with"),
    ],
)
def test_a_wrong_setting_ends_in_a_sentence(
    tmp_path: Path, folder: str | None, variables: dict[str, str], words: str
) -> None:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("GPUHEALTH_", "DJANGO_"))
    }
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "from diagnostics.cli import main; main()",
            "up",
            "--data-dir",
            folder or str(tmp_path),
        ],
        env=kept | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Error: {words}")
    assert "Traceback" not in ended.stderr
