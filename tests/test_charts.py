"""Figures: what Plotly is told, from plain values."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import plotly.graph_objects
import pytest

from diagnostics.charts import MOST_GAPS, Axis, Style, Trace, figure
from gpuhealth.bundles import BUNDLE, plotly_folder

START = datetime(2026, 6, 1, 9, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
PERCENT = Axis("%", 0, 0.0, 100.0)
STATIC = Path(__file__).parent.parent / "static"

HOSTILE = [
    "<b>bold</b><a href='javascript:alert(1)'>x</a>",
    "&lt;b&gt;",
    "%{y} %s {x}",
    "\x1b[31m\u202e",
    '"}],"x":[{"',
    "$\\frac{1}{2}$",
    "x" * 5000,
    "\ud800",
]


def drawn(*traces: Trace, axis: Axis = PERCENT, step: timedelta = HOUR) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(figure(traces, axis, START, step))
    return found


def test_a_line_has_one_value_per_step_from_its_start() -> None:
    (line,) = drawn(Trace("GPU 0", [1.0, 2.5]))["data"]

    assert (line["x0"], line["dx"], line["y"]) == ("2026-06-01 09:30:00", 3_600_000, [1.0, 2.5])


def test_a_missing_value_is_a_gap_and_never_zero() -> None:
    (line,) = drawn(Trace("GPU 0", [1.0, None, 3.0]))["data"]

    assert line["y"] == [1.0, None, 3.0]
    assert line["connectgaps"] is False


def test_a_time_in_which_nothing_was_measured_is_marked() -> None:
    found = drawn(Trace("a", [1, None, None, 4]), Trace("b", [None, None, None, 4]))

    (gap,) = found["layout"]["shapes"]
    assert (gap["x0"], gap["x1"]) == ("2026-06-01 09:30:00", "2026-06-01 12:30:00")


def test_what_one_line_lacks_and_another_has_is_no_gap_of_both() -> None:
    assert drawn(Trace("a", [1, None]), Trace("b", [None, 2]))["layout"]["shapes"] == []


def test_gaps_are_bounded_and_the_longest_stay() -> None:
    values = [*([1, None] * 100), None, None, 1]
    shapes = drawn(Trace("a", values))["layout"]["shapes"]

    assert len(shapes) == MOST_GAPS
    assert shapes[0]["x0"] == "2026-06-09 15:30:00"


def test_a_value_between_gaps_is_a_point() -> None:
    lone, joined = drawn(Trace("a", [None, 1, None]), Trace("b", [1, 2, None]))["data"]

    assert (lone["mode"], joined["mode"]) == ("lines+markers", "lines")


def test_times_are_shown_in_the_zone_of_the_start() -> None:
    zone = START.astimezone(tz=datetime.fromisoformat("2026-01-01T00:00:00+05:30").tzinfo)

    found = json.loads(figure([Trace("a", [1.0])], PERCENT, zone, HOUR))

    assert found["data"][0]["x0"] == "2026-06-01 15:00:00"


def test_values_carry_their_unit_and_a_share_its_whole_range() -> None:
    found = drawn(Trace("a", [50.0]))

    assert found["layout"]["yaxis"]["range"] == [0.0, 100.0]
    assert found["layout"]["yaxis"]["ticksuffix"] == " %"
    assert found["data"][0]["hovertemplate"].endswith(" %")


def test_lines_are_numbered_and_edges_are_not() -> None:
    found = drawn(Trace("a", [1]), Trace("top", [1], Style.EDGE), Trace("b", [1]))

    assert [trace["meta"] for trace in found["data"]] == [
        {"style": "line", "number": 0},
        {"style": "edge", "number": 1},
        {"style": "line", "number": 1},
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text(name: str) -> None:
    (line,) = drawn(Trace(name, [1.0]))["data"]

    assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", line["name"])
    assert "%{" not in line["name"]
    assert len(line["name"]) < 400
    assert not re.search(r"[\x00-\x1f\u202a-\u202e]", line["name"])
    assert line["hovertemplate"] == "%{y:,.0f} %"


@pytest.mark.parametrize(
    "traces",
    [
        [],
        [Trace("nothing", [None, None])],
        [Trace("a", [1.0, None, 2.0]), Trace("highest", [2.0, None, None], Style.EDGE)],
        [Trace("mean", [1.0], Style.MIDDLE)],
    ],
)
@pytest.mark.parametrize("axis", [PERCENT, Axis("GiB", 1)])
@pytest.mark.parametrize("step", [timedelta(seconds=30), timedelta(days=1)])
def test_every_figure_fits_the_schema_of_plotly(traces: list[Trace], axis: Axis, step: timedelta) -> None:
    plotly.graph_objects.Figure(json.loads(figure(traces, axis, START, step)))  # raises for what does not


def test_it_is_made_without_django_plotly_or_a_database() -> None:
    code = (
        "import sys; from diagnostics.charts import *; from datetime import *;"
        "figure([Trace('a', [1.0])], Axis('W'), datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1));"
        "print(sorted(m for m in ('django', 'plotly', 'celery') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def bundle() -> str:
    return (plotly_folder() / BUNDLE).read_text(encoding="utf-8")


def test_the_style_sheet_holds_the_rules_of_the_bundle(bundle: str) -> None:
    """Plotly leaves them out where it finds the link to ours: a new version may bring others."""
    start = bundle.index('"X,X div":')
    rules = re.findall(
        r"""(?:"([^"]*)"|([A-Za-z_]\w*)):("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')[,}]""",
        bundle[start : bundle.index(".replace(/^,/", start)],
    )
    wanted = {
        (_words(_selector(quoted or bare)), _words(declarations[1:-1]))
        for quoted, bare, declarations in rules
    }
    css = re.sub(r"/\*.*?\*/", "", (STATIC / "css" / "plotly.css").read_text(), flags=re.DOTALL)

    found = {(_words(selector), _words(body)) for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", css)}

    assert len(rules) > 50
    assert found == wanted


def _selector(key: str) -> str:
    return key.replace("X", ".js-plotly-plot .plotly").replace("Y", ".plotly-notifier")


def _words(css: str) -> str:
    return re.sub(r"\s*([,;:{}])\s*", r"\1", css.strip())


def test_the_style_of_maps_is_kept_out(bundle: str) -> None:
    """The bundle adds a <style> unless an element with its id is there, and the page has one."""
    ids = set(
        re.findall(
            r'getElementById\("([0-9a-f]{40,})"\)\)\{var \w+=document\.createElement\("style"\)', bundle
        )
    )

    script = (STATIC / "js" / "charts.js").read_text()
    assert ids == set(re.findall(r'"([0-9a-f]{40,})"', script))
    assert bundle.count('createElement("style")') == 1 + len(ids)
