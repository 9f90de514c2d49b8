"""How values look on a page."""

from datetime import timedelta

import pytest

from diagnostics.findings import Evidence, Severity
from diagnostics.fixes import Risk
from diagnostics.snapshot import SourceState, State
from diagnostics.templatetags import gpuhealth as tags
from tests.builders import NOW, ago


@pytest.mark.parametrize("word", [*Severity, *Risk, *SourceState])
def test_every_word_of_a_badge_has_a_shape(word: str) -> None:
    badge = tags.badge(word)

    assert f"badge-{word}" in badge
    assert f">{word}<" in badge.replace("</svg>", ">")


def test_shapes_tell_apart_what_colours_tell_apart() -> None:
    for words in (list(Severity), list(Risk)):
        assert len({tags.SHAPES[word] for word in words}) == len(words)


def test_an_unknown_word_of_a_badge_has_no_colour() -> None:
    assert "badge-unknown" in tags.badge("<b>new")
    assert "&lt;b&gt;new" in tags.badge("<b>new")


def test_every_state_has_a_letter_of_its_own() -> None:
    assert set(tags.STATES) == set(State)
    assert len({letter for letter, _, _ in tags.STATES.values()}) == len(State)


def test_no_state_is_not_evaluated() -> None:
    assert tags.letter(None) == "?"
    assert tags.state_name(None) == "not evaluated"


@pytest.mark.parametrize("missing", [tags.memory, tags.percent, tags.milliseconds, tags.seconds, tags.moment])
def test_what_is_missing_is_never_zero(missing: object) -> None:
    text = missing(None)  # type: ignore[operator]

    assert 'class="no-data"' in text
    assert "0" not in text


def test_measured_zero_is_zero() -> None:
    assert tags.measured(0.0, "W") == "0 W"
    assert tags.percent(0.0) == "0 %"
    assert tags.or_unknown(0) == "0"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(3.0, "3"), (3.37, "3.4"), (1024, "1,024"), (0.04, "0"), (100.0, "100"), (-2.5, "-2.5")],
)
def test_numbers_have_at_most_one_decimal(value: float, shown: str) -> None:
    assert tags.number(value) == shown


def test_ages_never_run_backwards() -> None:
    assert 'data-age="0"' in tags.age(NOW + timedelta(minutes=1), NOW)
    assert ">20 min<" in tags.age(ago(minutes=20), NOW)


def test_times_name_their_zone(settings: object) -> None:
    assert "2026-06-01 12:00:00 UTC" in tags.moment(NOW)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2026-06-01T12:00:00Z", "{}"),
        ("last seen 4 min ago (2026-06-01T12:00:00Z), 3 times", "last seen 4 min ago ({}), 3 times"),
        ("False since 2026-06-01T12:00:00Z", "False since {}"),
        ("<b> 2026-06-01T12:00:00Z", "&lt;b&gt; {}"),
        ("a time that it does not spell", "a time that it does not spell"),
    ],
)
def test_the_moment_of_a_fact_is_shown_as_every_other(value: str, shown: str) -> None:
    assert tags.stated(Evidence("seen", value, at=NOW)) == shown.format(tags.moment(NOW))


def test_a_fact_without_a_moment_is_not_read_for_one() -> None:
    assert tags.stated(Evidence("a pod's name", "2026-06-01T12:00:00Z")) == "2026-06-01T12:00:00Z"


def test_prose_marks_code_and_makes_no_links() -> None:
    text = tags.prose("`kubectl get node` shows <b> on https://example.com and gpu-1.example.com")

    assert text == (
        "<p><code>kubectl get node</code> shows &lt;b&gt; on https://example.com and gpu-1.example.com</p>"
    )


def test_prose_with_an_odd_backtick_keeps_it() -> None:
    assert tags.prose("a `b` c ` d") == "<p>a <code>b</code> c ` d</p>"


def test_documentation_has_paragraphs_lists_and_links() -> None:
    text = tags.documentation("One\ntwo.\n\n- a `b`\n- c\n\nhttps://example.com/x?a=1&b=2, nvidia.com/gpu")

    assert text == (
        "<p>One two.</p><ul><li>a <code>b</code></li><li>c</li></ul>"
        '<p><a href="https://example.com/x?a=1&amp;b=2">https://example.com/x?a=1&amp;b=2</a>, nvidia.com/gpu</p>'
    )


@pytest.mark.parametrize("text", ["kubectl get pods", "a:\n  b: 1\n", "naïve 名前"])
def test_plain_text_may_be_copied(text: str) -> None:
    assert tags.is_plain(text)


@pytest.mark.parametrize("text", ["a\u200bb", "a\tb", "a\ufffdb", "\x1b[2J"])
def test_text_with_what_cannot_be_seen_may_not_be_copied(text: str) -> None:
    assert not tags.is_plain(text)
    assert tags.LOST in tags.revealed(text)
