"""The map's HTML: thousands of GPUs, each a link with its facts; templates would take seconds for them.

Whatever comes from a cluster goes through `escape` here, and the result is marked safe in one place, at the end.
It is html.escape, which django.utils.html.escape calls: the latter's safe strings are slow to put together.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from urllib.parse import quote

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from diagnostics import quantities
from diagnostics.picture import Devices, GpuCell, NodeLine
from diagnostics.snapshot import State
from diagnostics.templatetags.gpuhealth import state_name
from diagnostics.text import printable
from diagnostics.views.maps.matching import Matcher
from diagnostics.views.maps.paint import Painter

SAFE = "!$&'()*+,;=/~:@"
"""What django.urls.reverse leaves as it is in an address."""
OWNERS_NAMED = 3
"""Of a shared GPU."""
LINE = "&#10;"
"""A line break in an attribute."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Some nodes as HTML, and what was counted meanwhile."""

    html: SafeString
    gpus: int
    matching: int
    matching_nodes: int
    counts: Counter[Hashable]
    """GPUs that match, by key of the legend."""


class Drawing:
    """Draws nodes of one picture; keeps what is said again and again."""

    def __init__(
        self, slug: str, devices: Devices, painter: Painter, matches: Matcher, names: dict[str, str]
    ) -> None:
        self._painter = painter
        self._matches = matches
        self._names = names
        # The end of an address is added by hand: resolving thousands of them takes most of a second.
        self._node_base = reverse("node_detail", args=[slug, "X"]).removesuffix("X/")
        self._gpu_base = reverse("gpu_detail", args=[slug, "X"]).removesuffix("X/")
        self._owners = [
            LINE + escape(printable(f"{o.kind} {o.namespace}/{o.name}", 300)) for o in devices.owners
        ]
        self._texts = lru_cache(1_000)(lambda name: escape(printable(name, 80)))
        self._quoted = lru_cache(10_000)(_quoted)

    def draw(self, nodes: Iterable[NodeLine]) -> Drawn:
        parts: list[str] = []
        counts: Counter[Hashable] = Counter()
        gpus = matching = matching_nodes = 0
        for node in nodes:
            wanted = self._matches(node)
            gpus += len(wanted)
            matching += (here := sum(wanted))
            matching_nodes += here > 0
            parts.append(self._node(node, wanted, counts))
        html = mark_safe("".join(parts))  # noqa: S308 - _node and _gpu escape
        return Drawn(html=html, gpus=gpus, matching=matching, matching_nodes=matching_nodes, counts=counts)

    def _node(self, node: NodeLine, wanted: tuple[bool, ...], counts: Counter[Hashable]) -> str:
        full = escape(printable(node.name, 253))
        short = escape(self._names[node.name])
        base = self._gpu_base + self._quoted(node.name) + "/"
        troubles = (
            list(node.troubles) if node.readiness is not None else ["readiness unknown", *node.troubles]
        )
        mark = ""
        if troubles:
            words = escape(printable(", ".join(troubles), 300))
            mark = f'<span class="map-trouble" title="{words}">! <span class="unseen">{words}</span></span>'
        name = f"<bdi>{short}</bdi>"
        if node.name:
            href = f"{self._node_base}{self._quoted(node.name)}/"
            name = f'<a class="row-link" href="{href}" title="{full}">{name}</a>'
        cells = "".join(
            [
                self._gpu(node, cell, is_wanted, base, counts)
                for cell, is_wanted in zip(node.gpus, wanted, strict=True)
            ]
        )
        cells = cells or '<span class="no-data">no GPU known</span>'
        return f'<li><p class="map-node">{mark}{name}</p><div class="map-cells">{cells}</div></li>'

    def _gpu(
        self, node: NodeLine, cell: GpuCell, is_wanted: bool, base: str, counts: Counter[Hashable]
    ) -> str:
        paint = self._painter.paint(node, cell)
        if is_wanted:
            counts[paint.key] += 1
            style, letter = paint.style, paint.letter
        else:
            # Without a letter, so that nothing that is hard to read has to be read.
            style, letter = f"{paint.style} map-dim", ""
        words = (
            f"{self._texts(cell.name)}: {_state(cell.state, cell.is_unjudged)}{LINE}"
            f"{_percent('utilization', cell.utilization_ratio)}, {_percent('activity', cell.activity_ratio)}, "
            f"{_percent('memory', cell.memory_ratio)}, {_celsius(cell.temperature_c)}"
        )
        if paint.words:
            words += LINE + paint.words
        owners = cell.owners
        if owners:
            words += (
                self._owners[owners[0]]
                if len(owners) == 1
                else "".join(self._owners[owner] for owner in dict.fromkeys(owners[:OWNERS_NAMED]))
            )
            if len(owners) > OWNERS_NAMED:
                words += f"{LINE}and {len(owners) - OWNERS_NAMED} more"
        return (
            f'<a class="{style}" href="{base}{self._quoted(cell.place)}/" tabindex="-1" title="{words}">'
            f"{letter}</a>"
        )


def _quoted(name: str) -> str:
    """A part of an address, in an attribute."""
    return escape(quote(name, safe=SAFE, errors="replace"))


# What was measured needs no escaping.


@lru_cache(100)
def _state(state: State | None, is_unjudged: bool) -> str:
    return f"{state_name(state)}, not judged" if is_unjudged else state_name(state)


@lru_cache(10_000)
def _percent(label: str, ratio: float | None) -> str:
    return f"{label} no data" if ratio is None else f"{label} {quantities.percent(ratio)}"


@lru_cache(1_000)
def _celsius(value: float | None) -> str:
    return "temperature no data" if value is None else f"{value:.0f} °C"
