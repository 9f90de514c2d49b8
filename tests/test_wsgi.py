"""What a web process does before its first request."""

import pytest

from tests.processes import python

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_is_loaded_once_is_never_searched_for_garbage() -> None:
    web = python("import gc, gpuhealth.wsgi; print(gc.get_freeze_count(), gc.isenabled())")
    said, complaints = web.communicate(timeout=60)
    assert web.returncode == 0, complaints
    frozen, is_enabled = said.split()
    assert int(frozen) > 50_000  # Django, the views and all that they import
    assert is_enabled == "True"
