"""The pattern sheet: every token and component that pages are made of, in both themes."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.contrib.staticfiles import finders
from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from diagnostics.snapshot import State
from diagnostics.templatetags.gpuhealth import SHAPES, STATES
from diagnostics.views.page import HtmxRequest, Page, bare_frame, render_page

_HEADING = re.compile(
    r"^  /\* (?P<heading>[^*]+?) \*/$|^  --(?P<name>[\w-]+): (?P<value>[^;]+);", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class Token:
    """A custom property of tokens.css."""

    name: str
    value: str
    is_colour: bool


@dataclass(frozen=True, kw_only=True)
class TokenGroup:
    heading: str
    tokens: tuple[Token, ...]

    @property
    def colours(self) -> tuple[Token, ...]:
        return tuple(token for token in self.tokens if token.is_colour)

    @property
    def others(self) -> tuple[Token, ...]:
        return tuple(token for token in self.tokens if not token.is_colour)


@dataclass(frozen=True, kw_only=True)
class SampleCell:
    """One GPU, as partials/gpu_cell.html wants it."""

    name: str
    state: State | None
    is_unjudged: bool
    holders: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StylePage(Page):
    themes: tuple[str, ...]
    groups: tuple[TokenGroup, ...]
    badges: tuple[str, ...]
    cells: tuple[SampleCell, ...]
    states: tuple[State, ...]
    command: str
    hidden_command: str
    """With a character that cannot be seen."""


@require_safe
def style(request: HtmxRequest) -> HttpResponse:
    page = StylePage(
        frame=bare_frame("style"),
        now=timezone.now(),
        themes=("light", "dark"),
        groups=token_groups(_tokens_css().read_text(encoding="utf-8")),
        badges=(*SHAPES, "a word of its own"),
        cells=(
            *(
                SampleCell(name=f"gpu-1/{at}", state=state, is_unjudged=False, holders=("research/train-0",))
                for at, state in enumerate(STATES)
            ),
            SampleCell(
                name="gpu-2/0", state=State.EFFECTIVE, is_unjudged=True, holders=("research/train-0",)
            ),
            SampleCell(name="gpu-2/1", state=None, is_unjudged=False, holders=()),
        ),
        states=tuple(STATES),
        command="kubectl get pods --namespace=research --selector='app in (train)'",
        hidden_command="kubectl describe pod 'train\u202e0'",
    )
    return render_page(request, "pages/style.html", page)


@cache
def _tokens_css() -> Path:
    found = finders.find("css/tokens.css")
    assert isinstance(found, str), "tokens.css is one of our own static files"  # noqa: S101 - for the type
    return Path(found)


def token_groups(css: str) -> tuple[TokenGroup, ...]:
    """The custom properties of tokens.css under the comments that stand over them."""
    groups: dict[str, list[Token]] = {}
    heading = ""
    for found in _HEADING.finditer(css):
        if found["heading"]:
            heading = found["heading"].partition(":")[0]
            continue
        value = found["value"]
        is_colour = value.startswith(("light-dark(", "#"))
        groups.setdefault(heading, []).append(Token(name=found["name"], value=value, is_colour=is_colour))
    return tuple(TokenGroup(heading=name, tokens=tuple(tokens)) for name, tokens in groups.items())
