"""The project's settings for tests: nothing of the machine's own installation is read or written."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_KEPT = ("GPUHEALTH_DATABASE_URL", "GPUHEALTH_BROKER_URL", "GPUHEALTH_REQUIRE_SERVICES")
for _name in [name for name in os.environ if name.startswith("GPUHEALTH_") and name not in _KEPT]:
    del os.environ[_name]
_folder = tempfile.mkdtemp(prefix="gpuhealth-tests-")
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
os.environ["GPUHEALTH_DATA_DIR"] = _folder

from gpuhealth.settings import *  # noqa: E402, F403
from gpuhealth.settings import STORAGES as _STORAGES  # noqa: E402

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):  # noqa: F405
    # In a file, as in real life, so that other processes can be tested with it.
    DATABASES["default"]["TEST"] = {"NAME": f"{_folder}/test.sqlite3"}  # noqa: F405

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Names without hashes, so that no test depends on collectstatic having been run.
STORAGES = {
    **_STORAGES,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
STATIC_ROOT = Path(tempfile.mkdtemp(dir=_folder))  # empty: WhiteNoise warns of a folder that is not there
