"""PromQL as a tree: selectors, functions, aggregations, operators with vector matching."""

import re
from dataclasses import dataclass, replace
from typing import NoReturn

AGGREGATIONS = {"sum", "min", "max", "avg", "count", "group"}
_TOKEN = re.compile(
    r"""\s*(?:\#[^\n]*\s*)*(?:
      (?P<duration>(?:\d+(?:ms|[smhdwy]))+)(?![\w.])
    | (?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
    | (?P<name>[a-zA-Z_:][\w:]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    | (?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^(){}\[\],=<>@])
    | (?P<end>$))""",
    re.VERBOSE,
)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_LEVELS = (
    ("or",),
    ("and", "unless"),
    ("==", "!=", ">", ">=", "<", "<="),
    ("+", "-"),
    ("*", "/", "%"),
    ("^",),
)
"""Of the binary operators, the weakest first; all but the last group from the left."""
SET_OPERATORS = {"and", "or", "unless"}
COMPARISONS = set(_LEVELS[2])
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
DEEPEST = 60


class BadQuery(ValueError):
    """The query cannot be understood or evaluated; the message says why."""


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Text:
    value: str


@dataclass(frozen=True)
class Matcher:
    label: str
    operator: str
    """`=`, `!=`, `=~` or `!~`; expressions match whole values, and a missing label is empty."""
    value: str

    def matches(self, value: str) -> bool:
        """Whether a label with this value passes."""
        match self.operator:
            case "=":
                return value == self.value
            case "!=":
                return value != self.value
            case "=~":
                return _pattern(self.value).fullmatch(value) is not None
        return _pattern(self.value).fullmatch(value) is None


@dataclass(frozen=True)
class Selector:
    matchers: tuple[Matcher, ...]
    range_s: float | None = None
    """Of a range vector."""
    offset_s: float = 0.0
    at_s: float | None = None
    """Instead of the time of the step."""


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple["Expression", ...]


@dataclass(frozen=True)
class Aggregation:
    operator: str
    labels: tuple[str, ...]
    is_without: bool
    inner: "Expression"


@dataclass(frozen=True)
class Binary:
    operator: str
    left: "Expression"
    right: "Expression"
    is_bool: bool = False
    on: tuple[str, ...] | None = None
    ignoring: tuple[str, ...] = ()
    group: str = ""
    """`left` or `right`: the side of which several series may match one of the other."""
    include: tuple[str, ...] = ()


Expression = Number | Text | Selector | Call | Aggregation | Binary
Token = tuple[str, str]

_patterns: dict[str, re.Pattern[str]] = {}


def _pattern(text: str) -> re.Pattern[str]:
    found = _patterns.get(text)
    if found is None:
        if len(_patterns) > 1000:
            _patterns.clear()
        try:
            found = _patterns[text] = re.compile(text, re.DOTALL)
        except re.error as error:
            msg = f"error parsing regexp: {error}"
            raise BadQuery(msg) from None
    return found


def parsed(query: str) -> Expression:
    """The tree of a query. Raises BadQuery."""
    return _Parser(_tokens(query)).whole()


def _tokens(query: str) -> list[Token]:
    found, at = [], 0
    while True:
        match = _TOKEN.match(query, at)
        if match is None or match.lastgroup is None:
            msg = f"parse error at char {at + 1}: unexpected {query[at : at + 10]!r}"
            raise BadQuery(msg)
        kind = match.lastgroup
        found.append((kind, match[kind]))
        at = match.end()
        if kind == "end":
            return found


def duration_s(text: str) -> float:
    """`1h30m` in seconds. Raises BadQuery."""
    parts = re.findall(r"(\d+)(ms|[smhdwy])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        msg = f"not a valid duration string: {text!r}"
        raise BadQuery(msg)
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> Expression:
        found = self._level(0)
        if self._kind != "end":
            self._unexpected()
        return found

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _word(self) -> str:
        return self._tokens[self._at][1]

    def _unexpected(self) -> NoReturn:
        msg = (
            f"parse error: unexpected {self._word!r}"
            if self._word
            else "parse error: unexpected end of input"
        )
        raise BadQuery(msg)

    def _take(self, *words: str) -> str:
        """The next token if it is one of these (or of any, without words), else an error."""
        word = self._word
        if (words and word not in words) or self._kind == "end" or (words and self._kind == "string"):
            self._unexpected()
        self._at += 1
        return word

    def _is(self, *words: str) -> bool:
        return self._kind in {"sign", "name"} and self._word in words

    def _level(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        self._depth += 1
        if self._depth > DEEPEST * len(_LEVELS):
            msg = "the query is nested too deeply"
            raise BadQuery(msg)
        left = self._level(level + 1)
        while self._is(*_LEVELS[level]):
            operator = self._take()
            shape = self._matching()
            # A power groups from the right.
            right = self._level(level if operator == "^" else level + 1)
            left = replace(shape, operator=operator, left=left, right=right)
        self._depth -= 1
        return left

    def _matching(self) -> Binary:
        shape = Binary("", Number(0.0), Number(0.0))
        if self._is("bool"):
            self._take()
            shape = replace(shape, is_bool=True)
        if self._is("on"):
            self._take()
            shape = replace(shape, on=self._labels())
        elif self._is("ignoring"):
            self._take()
            shape = replace(shape, ignoring=self._labels())
        if self._is("group_left", "group_right"):
            side = self._take().removeprefix("group_")
            shape = replace(shape, group=side, include=self._labels() if self._is("(") else ())
        return shape

    def _labels(self) -> tuple[str, ...]:
        self._take("(")
        found = []
        while not self._is(")"):
            if self._kind != "name":
                self._unexpected()
            found.append(self._take())
            if not self._is(")"):
                self._take(",")
        self._take(")")
        return tuple(found)

    def _unary(self) -> Expression:
        if self._is("-", "+"):
            sign = self._take()
            inner = self._level(len(_LEVELS) - 1)
            return Binary("*", Number(-1.0), inner) if sign == "-" else inner
        return self._modified(self._primary())

    def _primary(self) -> Expression:
        kind, word = self._kind, self._word
        if kind == "number":
            self._take()
            return Number(float(int(word, 16)) if word[:2].lower() == "0x" else float(word))
        if kind == "string":
            self._at += 1
            return Text(_unquoted(word))
        if self._is("("):
            self._take()
            inner = self._level(0)
            self._take(")")
            return inner
        if self._is("{"):
            return self._selector("")
        if kind != "name":
            self._unexpected()
        self._take()
        if word in AGGREGATIONS and self._is("(", "by", "without"):
            return self._aggregation(word)
        if word.lower() in {"inf", "nan"}:
            return Number(float(word))
        if self._is("("):
            return Call(word, self._arguments())
        return self._selector(word)

    def _aggregation(self, operator: str) -> Expression:
        labels: tuple[str, ...] = ()
        is_without, is_grouped = False, False
        if self._is("by", "without"):
            is_without, is_grouped = self._take() == "without", True
            labels = self._labels()
        (inner,) = self._arguments() if self._is("(") else self._unexpected()
        if not is_grouped and self._is("by", "without"):
            is_without = self._take() == "without"
            labels = self._labels()
        return Aggregation(operator, labels, is_without, inner)

    def _arguments(self) -> tuple[Expression, ...]:
        self._take("(")
        found = []
        while not self._is(")"):
            found.append(self._level(0))
            if not self._is(")"):
                self._take(",")
        self._take(")")
        return tuple(found)

    def _selector(self, name: str) -> Selector:
        matchers = [Matcher("__name__", "=", name)] if name else []
        if self._is("{"):
            self._take()
            while not self._is("}"):
                if self._kind != "name":
                    self._unexpected()
                label = self._take()
                operator = self._take("=", "!=", "=~", "!~")
                if self._kind != "string":
                    self._unexpected()
                matchers.append(Matcher(label, operator, _unquoted(self._take())))
                if not self._is("}"):
                    self._take(",")
            self._take("}")
        if all(matcher.matches("") for matcher in matchers):
            msg = "vector selector must contain at least one non-empty matcher"
            raise BadQuery(msg)
        return Selector(tuple(matchers))

    def _modified(self, found: Expression) -> Expression:
        while self._is("[", "offset", "@"):
            if not isinstance(found, Selector):
                msg = "ranges, offsets and @ are only understood of selectors"
                raise BadQuery(msg)
            word = self._take()
            if word == "[":
                found = replace(found, range_s=self._duration())
                self._take("]")
            elif word == "offset":
                sign = -1 if self._is("-") and self._take() else 1
                found = replace(found, offset_s=sign * self._duration())
            else:
                if self._kind != "number":
                    self._unexpected()
                found = replace(found, at_s=float(self._take()))
        return found

    def _duration(self) -> float:
        if self._kind != "duration":
            self._unexpected()
        return duration_s(self._take())


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    if text[0] == "`":
        return inner
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), inner)
