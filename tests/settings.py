"""The project's settings for tests: nothing of the machine's own installation is read or written."""

import os
import tempfile
from pathlib import Path

_KEPT = ("GPUHEALTH_DATABASE_URL", "GPUHEALTH_BROKER_URL", "GPUHEALTH_REQUIRE_SERVICES")
for _name in [name for name in os.environ if name.startswith("GPUHEALTH_") and name not in _KEPT]:
    del os.environ[_name]
# Only names: reading settings, as type checkers do too, creates nothing.
_folder = Path(tempfile.gettempdir())
os.environ["GPUHEALTH_DATA_DIR"] = str(_folder / f"gpuhealth-test-{os.getpid()}")
os.environ.setdefault("GPUHEALTH_DATABASE_URL", f"sqlite://{_folder}/gpuhealth-test-{os.getpid()}.sqlite3")
os.environ["GPUHEALTH_SECRET_KEY"] = "for-tests-only-0123456789abcdefghijklmnopqrstuvwxyz"

from gpuhealth.settings import *  # noqa: E402, F403
from gpuhealth.settings import DATABASES, STORAGES  # noqa: E402

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # In a file, as in real life, so that other processes can be tested with it.
    DATABASES["default"]["TEST"] = {"NAME": str(DATABASES["default"]["NAME"])}

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Names without hashes, so that no test depends on collectstatic having been run.
STORAGES = STORAGES | {
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
# Static files straight from their sources: nothing need be collected.
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS = True
