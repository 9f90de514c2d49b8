"""The pattern sheet shows all there is, and its colours can be read in both themes."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.snapshot import State
from diagnostics.templatetags.gpuhealth import SHAPES
from diagnostics.views.style import token_groups

PAGE = "/style/"
CSS = Path(settings.BASE_DIR) / "static/css"
GROUPS = token_groups((CSS / "tokens.css").read_text())
TOKENS = {token.name: token for group in GROUPS for token in group.tokens}
UNSHOWN = {
    "htmx-request": "set by htmx while an answer is awaited",
    "glossary": "stands in the folded legend of states, shown where that is",
}
"""Classes of components.css that the sheet does not show by themselves, and why."""

SURFACES = ("page", "surface", "sunken", "raised")
READ_ON = {
    # text -> what it stands on
    "text": (*SURFACES, "critical-soft", "warning-soft", "info-soft", "good-soft"),
    "text-muted": (*SURFACES, "info-soft"),
    "link": (*SURFACES, "info-soft", "warning-soft", "critical-soft"),
    "critical": ("critical-soft", "surface", "page"),
    "warning": ("warning-soft", "surface", "page"),
    "info": ("info-soft", "surface", "page"),
    "good": ("good-soft", "surface", "page"),
    "surface": ("link",),  # the words on a main action
    **{
        f"{name}-text": (name,) for name in TOKENS if name.startswith("state-") and not name.endswith("-text")
    },
}
SEEN_ON = {
    # edges of controls, focus rings, bars, lines of plots -> what they stand on
    "line-strong": SURFACES,
    "focus": SURFACES,
    "link": SURFACES,
    "critical": ("surface", "page"),
    "warning": ("surface", "page"),
    **{f"trace-{number}": SURFACES for number in range(1, 9)},
}
themes = pytest.mark.parametrize("theme", ["light", "dark"])


def colour(name: str, theme: str) -> tuple[float, ...]:
    """Red, green and blue of a token, 0 to 1."""
    found = re.findall(r"#([0-9a-f]{6})", TOKENS[name].value)
    value = found[-1] if theme == "dark" else found[0]
    return tuple(int(value[at : at + 2], 16) / 255 for at in (0, 2, 4))


def luminance(rgb: tuple[float, ...]) -> float:
    """WCAG 2.2, relative luminance."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str, theme: str) -> float:
    """WCAG 2.2, contrast ratio: 1 to 21."""
    bright, dark = sorted((luminance(colour(one, theme)), luminance(colour(other, theme))), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_wcag_does() -> None:
    white, black = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)

    assert (luminance(white) + 0.05) / (luminance(black) + 0.05) == pytest.approx(21)
    assert luminance((0.5, 0.5, 0.5)) == pytest.approx(0.2140, abs=1e-3)


@themes
@pytest.mark.parametrize(("text", "ground"), [(t, on) for t, grounds in READ_ON.items() for on in grounds])
def test_text_can_be_read(text: str, ground: str, theme: str) -> None:
    assert contrast(text, ground, theme) >= 4.5


@themes
@pytest.mark.parametrize(("edge", "ground"), [(e, on) for e, grounds in SEEN_ON.items() for on in grounds])
def test_controls_can_be_seen(edge: str, ground: str, theme: str) -> None:
    assert contrast(edge, ground, theme) >= 3


def test_every_colour_that_carries_words_is_checked() -> None:
    grounds = {ground for pairs in (READ_ON, SEEN_ON) for on in pairs.values() for ground in on}
    plain = {"line", "hatch"}  # decoration: what they part can be told apart without them

    assert {name for name, token in TOKENS.items() if token.is_colour} == {
        *READ_ON,
        *SEEN_ON,
        *grounds,
    } | plain


def test_every_state_has_its_colours() -> None:
    drawn_without = {State.FREE, State.NO_DATA}  # outlined and hatched

    for state in set(State) - drawn_without:
        assert f"state-{state.replace('_', '-')}" in TOKENS


def test_tokens_are_read_with_their_headings() -> None:
    (group,) = token_groups(
        ":root {\n  /* Space: steps */\n  --a: light-dark(#ffffff, #000000); /* x */\n  --b: 1rem;\n}"
    )

    assert group.heading == "Space"
    assert [(t.name, t.value, t.is_colour) for t in group.tokens] == [
        ("a", "light-dark(#ffffff, #000000)", True),
        ("b", "1rem", False),
    ]


def classes_of_components() -> set[str]:
    css = re.sub(r"/\*.*?\*/", "", (CSS / "components.css").read_text(), flags=re.DOTALL)
    selectors = re.findall(r"([^{}]+)\{", css)
    return {
        name for s in selectors if not s.strip().startswith("@") for name in re.findall(r"\.([a-z][\w-]*)", s)
    }


@pytest.mark.django_db
def test_every_component_is_shown_or_said_why_not(browser: Client) -> None:
    page = browser.get(PAGE).content.decode()
    shown = {name for classes in re.findall(r'class="([^"]*)"', page) for name in classes.split()}

    assert classes_of_components() - shown - set(UNSHOWN) == set()
    assert set(UNSHOWN) <= classes_of_components()


@pytest.mark.django_db
def test_every_token_badge_and_state_is_shown_in_both_themes(browser: Client) -> None:
    page = browser.get(PAGE).content.decode()

    for name, token in TOKENS.items():
        assert page.count(f"<code>{name}</code>") == 2
        assert page.count(f'fill="var(--{name})"') == (2 if token.is_colour else 0)
    for word in SHAPES:
        assert page.count(f'class="badge badge-{word}"') >= 2
    for state in State:
        assert page.count(f"cell-{state}") >= 4


@pytest.mark.django_db
def test_it_costs_three_queries(browser: Client, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(3):
        browser.get(PAGE)


def test_colours_have_names() -> None:
    """A colour is given to a token, here or in the file of its page, so that each theme can have its own."""
    for path in CSS.glob("*.css"):
        if path.name == "plotly.css":  # Plotly's own
            continue
        css = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for name, value in re.findall(r"(?m)^\s*([\w-]+):([^;{}]*);", css):
            assert name.startswith("--") or not re.search(r"#[0-9a-f]{3,8}\b|\bhsl\(|\boklch\(", value), (
                path.name
            )


def test_every_token_that_is_used_exists() -> None:
    for path in CSS.glob("*.css"):
        css = path.read_text()
        used, own = set(re.findall(r"var\(--([\w-]+)", css)), set(re.findall(r"--([\w-]+):", css))
        assert used - own <= set(TOKENS), path.name
