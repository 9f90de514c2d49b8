"""Settings come from the environment, typed, and fail loudly."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from gpuhealth import environment

ROOT = Path(__file__).parent.parent
PRINT = """
import json
from gpuhealth import settings
print(json.dumps({name: getattr(settings, name) for name in dir(settings) if name.isupper()}, default=str))
"""


def settings_with(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The settings module in a fresh process with these variables and no others of ours."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUHEALTH_")}
    return subprocess.run(
        [sys.executable, "-c", PRINT],
        cwd=ROOT,
        env={**plain, "GPUHEALTH_DATA_DIR": str(tmp_path), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def read(tmp_path: Path, **variables: str) -> dict[str, Any]:
    result = settings_with(tmp_path, **variables)
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


def test_without_any_variable_all_is_local_and_closed(tmp_path: Path) -> None:
    settings = read(tmp_path)

    assert settings["DEBUG"] is False
    assert settings["ALLOWED_HOSTS"] == ["127.0.0.1", "localhost", "[::1]"]
    assert settings["DATABASES"]["default"]["NAME"] == str(tmp_path / "gpuhealth.sqlite3")
    assert settings["CLUSTERS"] == {}
    assert "LoginRequiredMiddleware" in str(settings["MIDDLEWARE"])
    assert settings["SECURE_CSP"]["default-src"] == ["'none'"]
    assert settings["SESSION_COOKIE_SECURE"] is False


def test_behind_tls_cookies_are_secure(tmp_path: Path) -> None:
    settings = read(tmp_path, GPUHEALTH_BEHIND_TLS="yes")

    assert settings["SESSION_COOKIE_SECURE"] is True
    assert settings["CSRF_COOKIE_SECURE"] is True
    assert settings["SECURE_HSTS_SECONDS"] > 0


def test_clusters_come_from_a_file_and_from_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text('[limits]\nidle_after = "45m"\n[clusters.prod]\nname = "Production"\n')
    settings = read(
        tmp_path, GPUHEALTH_CLUSTERS_FILE=str(file), GPUHEALTH_CLUSTERS='{"dev": {"kubeconfig": "/k"}}'
    )

    assert settings["CLUSTERS"].keys() == {"prod", "dev"}
    assert "45" in settings["LIMITS"] or "2700" in settings["LIMITS"]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"GPUHEALTH_CLUSTERS": "{"}, "GPUHEALTH_CLUSTERS is not a JSON object"),
        ({"GPUHEALTH_CLUSTERS": "[]"}, "GPUHEALTH_CLUSTERS is not a JSON object"),
        ({"GPUHEALTH_CLUSTERS": '{"prod": {"kubeconfg": "x"}}'}, "unknown field `kubeconfg`"),
        ({"GPUHEALTH_CLUSTERS_FILE": "/does/not/exist"}, "cannot be read"),
        ({"GPUHEALTH_CLUSTERS_FILE": __file__}, "is not TOML"),
        ({"GPUHEALTH_TIME_ZONE": "Mars/Olympus"}, "GPUHEALTH_TIME_ZONE is 'Mars/Olympus'"),
        ({"GPUHEALTH_SECRET_KEY": "short"}, "shorter than 32 characters"),
        ({"GPUHEALTH_DATABASE_URL": "mysql://x"}, "GPUHEALTH_DATABASE_URL begins neither"),
    ],
)
def test_a_mistake_stops_everything_and_is_named(
    tmp_path: Path, variables: dict[str, str], message: str
) -> None:
    result = settings_with(tmp_path, **variables)

    assert result.returncode != 0
    assert message in result.stderr


def test_one_cluster_declared_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text("[clusters.prod]\n")
    result = settings_with(tmp_path, GPUHEALTH_CLUSTERS_FILE=str(file), GPUHEALTH_CLUSTERS='{"prod": {}}')

    assert "both declare prod" in result.stderr


def test_a_secret_key_is_made_once_and_only_its_owner_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUHEALTH_SECRET_KEY", raising=False)
    folder = tmp_path / "new"
    key = environment.secret_key(folder)

    assert len(key) >= 50
    assert environment.secret_key(folder) == key
    assert (folder / "secret_key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["secret_key"]


def test_a_secret_key_comes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUHEALTH_SECRET_KEY", raising=False)
    (tmp_path / "key").write_text("k" * 40 + "\n")
    monkeypatch.setenv("GPUHEALTH_SECRET_KEY_FILE", str(tmp_path / "key"))
    assert environment.secret_key(tmp_path) == "k" * 40

    monkeypatch.setenv("GPUHEALTH_SECRET_KEY", "z" * 40)
    with pytest.raises(ImproperlyConfigured, match="not both"):
        environment.secret_key(tmp_path)


def test_a_damaged_key_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUHEALTH_SECRET_KEY", raising=False)
    (tmp_path / "secret_key").write_text("")

    with pytest.raises(ImproperlyConfigured, match="no usable secret key"):
        environment.secret_key(tmp_path)


def database(monkeypatch: pytest.MonkeyPatch, url: str) -> dict[str, Any]:
    monkeypatch.setenv("TRY", url)
    return environment.database("TRY", Path("/default.sqlite3"))


def test_a_postgresql_address_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    read = database(
        monkeypatch, "postgres://us%40er:p%3Aw%2Fd@db.example:6543/gpu%20health?sslmode=verify-full"
    )

    assert read["ENGINE"] == "django.db.backends.postgresql"
    assert (read["USER"], read["PASSWORD"], read["HOST"]) == ("us@er", "p:w/d", "db.example")
    assert (read["PORT"], read["NAME"]) == (6543, "gpu health")
    assert read["OPTIONS"]["sslmode"] == "verify-full"


def test_sqlite_waits_and_writes_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    read = database(monkeypatch, "sqlite:///var/lib/gpu%20health.sqlite3")

    assert read["NAME"] == Path("/var/lib/gpu health.sqlite3")
    assert "journal_mode=WAL" in read["OPTIONS"]["init_command"]
    assert read["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert read["OPTIONS"]["timeout"] > 0


def test_the_default_database_may_lie_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRY", raising=False)
    odd = tmp_path / "some where" / "100%" / "a#b?c" / "gpuhealth.sqlite3"

    assert environment.database("TRY", odd)["NAME"] == odd
    assert odd.parent.is_dir()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://relative.sqlite3",
        "sqlite:///",
        "sqlite:////x?mode=ro",
        "postgres://db.example/gpuhealth",
        "postgres://user:secret@db.example",
        "postgres://user:secret@db.example/a/b",
        "postgres://user:secret@db.example:port/gpuhealth",
        "postgres://user:sec#ret@db.example/gpuhealth",
        "postgres://user:secret@db.example/gpuhealth?option=1",
    ],
)
def test_a_database_address_that_is_not_one_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match="TRY") as raised:
        database(monkeypatch, url)
    assert "sec" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://x", "redis://", "redis://host:port", "redis+socket://"])
def test_a_broker_address_that_is_not_one_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("TRY", url)
    with pytest.raises(ImproperlyConfigured, match="TRY"):
        environment.broker("TRY")


def test_durations_have_units(monkeypatch: pytest.MonkeyPatch) -> None:
    def duration(value: str) -> timedelta:
        monkeypatch.setenv("TRY", value)
        return environment.duration("TRY", default=timedelta(minutes=1), least=timedelta(seconds=10))

    assert duration("") == timedelta(minutes=1)
    assert duration("1m 30s") == timedelta(seconds=90)
    for odd in ("60", "soon", "1m!", "5s"):
        with pytest.raises(ImproperlyConfigured, match="TRY"):
            duration(odd)


def test_yes_and_no_have_few_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    def boolean(value: str) -> bool:
        monkeypatch.setenv("TRY", value)
        return environment.boolean("TRY", default=True)

    assert [boolean(value) for value in ("1", "Yes", "TRUE", "on", "")] == [True] * 5
    assert [boolean(value) for value in ("0", "no", "False", "off")] == [False] * 4
    with pytest.raises(ImproperlyConfigured, match="neither yes nor no"):
        boolean("maybe")


def test_the_data_directory_of_a_command_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUHEALTH_DATA_DIR", "/from/the/environment")
    assert environment.data_dir() == Path("/from/the/environment")

    for form in (["--data-dir", str(tmp_path)], [f"--data-dir={tmp_path}"]):
        monkeypatch.setattr(sys, "argv", ["gpuhealth", "up", "--port", "0", *form])
        assert environment.data_dir() == tmp_path
