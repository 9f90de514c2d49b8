"""Text from a cluster made fit to show: names, messages and log lines are hostile until printed here."""

import unicodedata

_BIDI = dict.fromkeys(
    [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C], "\N{REPLACEMENT CHARACTER}"
)


def printable(text: str, limit: int = 2000) -> str:
    """`text` on one line without control, escape or direction-changing characters, cut to `limit` characters.

    Terminal escapes could rewrite a terminal, and bidirectional controls can make a name read as another
    (Unicode Technical Report 36): each becomes a visible replacement character; white space runs become one blank.
    """
    if len(text) <= limit and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()  # as most names are: a page shows thousands
    cut = len(text) > limit
    text = " ".join(text[: limit * 2].split()).translate(_BIDI)
    text = "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in {"Cc", "Cs", "Co"} else c for c in text
    )
    return text[: limit - 1] + "…" if cut or len(text) > limit else text


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 pod`, `3 pods`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def listed(names: list[str] | tuple[str, ...], most: int = 5) -> str:
    """`a, b, c and 4 more`: at most `most` names, the rest as a count; `a and b` for two."""
    shown, rest = list(names[:most]), len(names) - most
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    if len(shown) > 1:
        return f"{', '.join(shown[:-1])} and {shown[-1]}"
    return shown[0] if shown else "none"
