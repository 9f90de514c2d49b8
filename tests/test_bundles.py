"""Scripts of packages among the static files."""

from pathlib import Path

from django.contrib.staticfiles import finders
from django.core.management import call_command

from gpuhealth.bundles import PlotlyFinder, plotly_folder


def test_the_bundle_is_found_where_the_package_is() -> None:
    found = finders.find("plotly/plotly.min.js")

    assert found
    assert Path(found) == plotly_folder() / "plotly.min.js"


def test_nothing_else_of_the_package_is_served() -> None:
    assert finders.find("plotly/widgetbundle.js") is None
    assert finders.find("plotly/../plotly.min.js") is None
    assert [path for path, _ in PlotlyFinder().list([])] == ["plotly.min.js"]


def test_collecting_puts_it_beside_the_others(tmp_path: Path, settings: object) -> None:
    settings.STATIC_ROOT = tmp_path  # type: ignore[attr-defined]

    call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=["css"])

    assert (tmp_path / "plotly" / "plotly.min.js").stat().st_size > 2**20
    assert (tmp_path / "js" / "charts.js").exists()
