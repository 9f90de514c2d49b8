"""What a container's own command says of its sizes: batch, sequence, and whatever else GPU memory grows with."""

import re

from diagnostics.snapshot import Container
from diagnostics.text import listed, printable

_SIZE = re.compile(
    r"^-{0,2}(?:[\w.]*[-_.])?(?:batch|bsz|bs|micro[-_]?bsz|seq|seq[-_]?len(?:gth)?|max[-_]?len(?:gth)?|"
    r"max[-_]?model[-_]?len|context[-_]?len(?:gth)?|block[-_]?size|num[-_]?seqs|image[-_]?size|resolution)"
    r"(?:[-_.](?:size|len|length|tokens|per[-_]\w+))*$",
    re.IGNORECASE,
)
"""Names of options: `--batch-size`, `--per_device_train_batch_size`, `--max-model-len`, `train.seq_length=`."""
_MOST = 6
_LONGEST = 160


def size_arguments(container: Container) -> tuple[str, ...]:
    """Options of its command that set a batch or a sequence, with their values, as they are written there."""
    words = [part for word in (*container.command, *container.args) for part in word[:4000].split()]
    found = []
    for i, word in enumerate(words):
        name, sign, value = word.partition("=")
        if not _SIZE.match(name) or not (sign or name.startswith("-")):
            continue
        after = words[i + 1] if not sign and i + 1 < len(words) else ""
        found.append(f"{name}={value}" if sign else f"{name} {after}".rstrip())
    return tuple(dict.fromkeys(printable(text, 80) for text in found))[:_MOST]


def where_sizes_are(container: Container) -> str:
    """One sentence: the options to lower, or that the command has none."""
    if found := size_arguments(container):
        return f"Its command sets {listed([f'`{text}`' for text in found])}."
    words = " ".join((*container.command, *container.args))
    if not words:
        return "Its command is the image's own: batch and sequence are set there, or in its configuration."
    return (
        f"Its command, `{printable(words, _LONGEST)}`, sets no batch and no sequence length: they are in the program "
        "or its configuration."
    )
