"""Other processes on the database of the running test."""

import os
import subprocess
import sys
from pathlib import Path
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
