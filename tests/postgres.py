"""A PostgreSQL server of its own: in a folder that is given, on a free port of loopback, ended by process id."""

import os
import secrets
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.servers import free_port

USER = "gpuhealth"
WITHIN_S = 40.0


def programs() -> Path | None:
    """Folder of the newest installed server's programs; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: float(p.parent.name))
    folders = [*found[::-1], *(Path(p).parent for p in [shutil.which("initdb")] if p)]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Postgres:
    """A context manager; its data are those of the last run in the same folder. Raises OSError where it cannot start.

    Safe against the death of its processes, not against that of the machine.
    """

    def __init__(self, folder: Path) -> None:
        found = programs()
        if found is None:
            raise FileNotFoundError("PostgreSQL's server is missing: install the Debian package postgresql")
        self._programs = found
        self._folder = folder
        self._password = secrets.token_urlsafe(18)
        self._process: subprocess.Popen[bytes] | None = None
        # PostgreSQL refuses to run as root.
        self._as: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []}
        if os.geteuid() != 0:
            self._as = {}
        self.port = free_port()

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        password = self._folder / "password"
        password.write_text(self._password + "\n")
        if self._as:
            shutil.chown(self._folder, "postgres", "postgres")
            shutil.chown(password, "postgres", "postgres")
        made = [
            *(str(self._programs / "initdb"), f"--pgdata={self._folder / 'data'}", f"--username={USER}"),
            *(
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--auth=scram-sha-256",
                f"--pwfile={password}",
                "--no-sync",
            ),
        ]
        subprocess.run(made, check=True, capture_output=True, cwd="/", **self._as)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)  # a fast shutdown
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
            return
        self.kill()

    def start(self) -> None:
        """Until it answers; a server that was killed is tried again while its last children end."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                self._launch()
            if self._is_ready():
                return
            time.sleep(0.1)
        raise OSError(f"PostgreSQL did not start:\n{(self._folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL to the server itself; its children see that and end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def create(self, database: str) -> str:
        """A new, empty database; its URL."""
        subprocess.run(
            [str(self._programs / "createdb"), *self._place, database],
            check=True,
            capture_output=True,
            env=os.environ | {"PGPASSWORD": self._password},
        )
        return f"postgres://{USER}:{self._password}@127.0.0.1:{self.port}/{database}"

    @property
    def _place(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER]

    def _is_ready(self) -> bool:
        asked = [str(self._programs / "pg_isready"), *self._place]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def _launch(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(self._programs / "postgres"), "-D", str(self._folder / "data")),
                    *("-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._folder), "-c", "fsync=off"),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                **self._as,
            )
