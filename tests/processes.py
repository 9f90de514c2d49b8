"""Other processes: on the database of the running test, and what runs on this machine."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from django.conf import settings
from django.db import connection

ROOT = Path(__file__).parent.parent


def database_url() -> str:
    """The test database, as GPUHEALTH_DATABASE_URL; for tests with `transaction=True`."""
    given = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite://{quote(str(given['NAME']))}"
    login = f"{quote(given['USER'])}:{quote(given['PASSWORD'], safe='')}"
    return f"postgres://{login}@{given['HOST']}:{given['PORT']}/{given['NAME']}"


def environment(**variables: str) -> dict[str, str]:
    """For a process that shares database and secret key with the test, and nothing else of this machine."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUHEALTH_")}
    return {
        **plain,
        "DJANGO_SETTINGS_MODULE": "gpuhealth.settings",
        "GPUHEALTH_DATABASE_URL": database_url(),
        "GPUHEALTH_DATA_DIR": str(settings.DATA_DIR),
        "GPUHEALTH_SECRET_KEY": settings.SECRET_KEY,
        **variables,
    }


def python(code: str, **variables: str) -> subprocess.Popen[str]:
    """Run this code in a process of its own, with Django set up."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import django; django.setup()\n{code}"],
        cwd=ROOT,
        env=environment(**variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Process(NamedTuple):
    pid: int
    parent: int
    line: str
    """Its command line."""


def processes() -> list[Process]:
    """All that run."""
    listing = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 3) for line in listing.stdout.splitlines()]
    return [Process(int(row[0]), int(row[1]), row[3]) for row in rows if row[2][0] != "Z"]


def family(head: int) -> list[Process]:
    """Children, grandchildren and so on."""
    everything, found = processes(), {head}
    while more := {p.pid for p in everything if p.parent in found} - found:
        found |= more
    return [p for p in everything if p.pid in found - {head}]
