"""A log tail taken apart into streams: one per rank or process that writes into it, prefixes removed.

Ranks write into one log at the same time, wrappers break long lines, and progress bars use carriage returns.
A message is read from the stream that it belongs to, whatever others wrote in between.
"""

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

MOST_CHARACTERS = 8 * 2**20
"""The newest part of a log that is looked at."""
MOST_PER_LINE = 64 * 2**10
"""A longer line keeps its head and its tail."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(Z|[+-]\d\d:?\d\d)?(?:\s|$)")
_WHO = re.compile(
    r"\[(?P<rank>(?:rank|default)?\d{1,5})\]:\s?"
    r"|\[(?P<mpi>\d{1,4},\d{1,5})\]<std(?:out|err)>:?\s?"
    r"|\((?P<process>[A-Za-z]\w{0,60}(?: [\w.:-]{1,60})? (?:pid|rank)=\d{1,10}[^()\n]{0,80})\)\s?"
    r"|(?P<host>(?:[a-z][a-z0-9.-]{0,60}?-?\d{1,4}|\d{1,4}|\d{1,3}(?:\.\d{1,3}){3})):\s"
)
_LEVEL = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\["
    r"[\w./ -]{1,80}:\d{1,5}\]|[\w./-]{1,80}:\d{1,5}\])\s?"
    r"|\[ *\d{1,9}\.\d{6}\]\s?"
)


@dataclass
class Stream:
    """What one rank or process wrote: `text` with one line break between lines and single blanks inside
    them."""

    text: str = ""
    flat: str = ""
    """The same with blanks for line breaks: equal positions."""
    starts: list[int] = field(default_factory=list)
    """Where each line starts in `text`."""
    lines: list[int] = field(default_factory=list)
    """Number of each line in the log."""
    times: list[datetime | None] = field(default_factory=list)

    def line_at(self, position: int) -> int:
        """Index of the line that holds a position."""
        return bisect_right(self.starts, position) - 1


def wrap_width(text: str) -> int | None:
    """The width at which lines seem to have been cut, words or not (`fold`); None where nothing looks like it."""
    widths = Counter(len(line) for line in text[-MOST_CHARACTERS:].splitlines() if 40 <= len(line) <= 400)
    common = widths.most_common(1)
    return common[0][0] if common and common[0][1] > 1 else None


def streams(text: str, width: int | None = None) -> list[Stream]:
    """Take a log tail apart. Lines without a prefix continue the stream before them.

    With `width`, what follows a line of exactly that width is glued to it without a blank.
    """
    text = text[-MOST_CHARACTERS:]
    collected: dict[str, tuple[list[str], list[int], list[datetime | None]]] = {}
    last, cut_in = "", None
    for index, raw in enumerate(text.splitlines()):
        if not raw or raw.isspace():
            continue
        who, at, line, is_apart = _taken_apart(_bounded(raw))
        if not line:
            continue
        last = last if who is None else who
        parts, lines, times = collected.setdefault(last, ([], [], []))
        if cut_in == last and len(parts[-1]) < MOST_PER_LINE:
            parts[-1] += f" {line}" if is_apart else line
        else:
            parts.append(line)
            lines.append(index)
            times.append(at)
        is_cut = len(raw) == width and not raw[-1].isspace()
        cut_in = last if is_cut else None
    return [_stream(*found) for found in collected.values()]


def _stream(parts: list[str], lines: list[int], times: list[datetime | None]) -> Stream:
    starts, position = [], 0
    for part in parts:
        starts.append(position)
        position += len(part) + 1
    text = "\n".join(parts)
    return Stream(text, text.replace("\n", " "), starts, lines, times)


def _bounded(line: str) -> str:
    if len(line) <= MOST_PER_LINE:
        return line
    half = MOST_PER_LINE // 2
    return f"{line[:half]} … {line[-half:]}"


def _taken_apart(line: str) -> tuple[str | None, datetime | None, str, bool]:
    """(who wrote it, or None; when; the line without both; whether it began with a blank)."""
    who, at = None, None
    position = len(line) - len(line.lstrip())
    rest = 0
    for _ in range(4):
        if match := _TIME.match(line, position):
            at = at or _moment(match)
        elif match := _WHO.match(line, position):
            who = match[0].strip() if who is None else f"{who} {match[0].strip()}"
        else:
            match = _LEVEL.match(line, position)
        if match is None:
            break
        position = rest = match.end()
    return who, at, " ".join(line[rest:].split()), line[rest : rest + 1].isspace()


def _moment(match: re.Match[str]) -> datetime | None:
    """The kubelet's own time stamps name their zone; any other could be local time and says nothing."""
    if not match[3]:
        return None
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{match[3].replace('Z', '+00:00')}")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
