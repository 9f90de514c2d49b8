"""How long records are kept is read strictly."""

from datetime import timedelta
from typing import Any

import pytest

from diagnostics.clusters import DeclarationError, declaration
from diagnostics.retention import THIRTEEN_MONTHS, Retention, RetentionError, retention
from tests.test_settings import read, settings_with


def test_thirteen_months_unless_a_site_says_otherwise() -> None:
    kept = declaration({}, "clusters.toml").retention
    assert (kept.polls, kept.hours, kept.days) == (timedelta(days=1), timedelta(days=30), THIRTEEN_MONTHS)
    assert {getattr(kept, f) for f in kept.__struct_fields__ if f not in ("polls", "hours")} == {
        THIRTEEN_MONTHS
    }


def test_a_site_sets_it_with_units() -> None:
    kept = declaration({"retention": {"polls": "6h", "events": "90d"}}, "clusters.toml").retention
    assert (kept.polls, kept.events, kept.usage) == (timedelta(hours=6), timedelta(days=90), THIRTEEN_MONTHS)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"poll": "2d"}, "'poll'"),
        ({"events": 30}, "unit"),
        ({"events": "a while"}, "events"),
        ({"events": "1m"}, "from 3h"),
        ({"events": "99999999999999d"}, "events"),
        ({"polls": "40d"}, "polls must not be kept longer than hours"),
        ({"days": "20d"}, "hours longer than days"),
    ],
)
def test_a_slip_is_named(raw: dict[str, Any], said: str) -> None:
    with pytest.raises(RetentionError, match=said):
        retention(raw)
    with pytest.raises(DeclarationError, match=r"clusters\.toml: retention: "):
        declaration({"retention": raw}, "clusters.toml")


def test_what_is_not_named_stays_as_it_was() -> None:
    before = Retention(events=timedelta(days=90))
    assert retention({"polls": "2d"}, before) == Retention(events=timedelta(days=90), polls=timedelta(days=2))


def test_the_environment_goes_before_the_file(tmp_path: Any) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text('[retention]\npolls = "12h"\nevents = "90d"\n')
    variables = {"GPUHEALTH_CLUSTERS_FILE": str(file), "GPUHEALTH_RETENTION_POLLS": "2d"}
    kept = read(tmp_path, **variables)["RETENTION"]
    assert "polls=datetime.timedelta(days=2)" in kept
    assert "events=datetime.timedelta(days=90)" in kept


def test_a_slip_in_the_environment_stops_the_start(tmp_path: Any) -> None:
    result = settings_with(tmp_path, GPUHEALTH_RETENTION_EVENT="2d")
    assert result.returncode
    assert "GPUHEALTH_RETENTION_…: nothing is kept under the name 'event'" in result.stderr
