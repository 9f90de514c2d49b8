"""What teams are mapped by, cut down to what the rules ask for: the namespace, and values of some labels."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from diagnostics.models import Cluster, Workload
from diagnostics.usage.lines import Values
from diagnostics.usage.teams import By, Owner, Rule

BATCH = 30_000
"""Primary keys in one query: SQLite takes 250,000 at most."""

type Keys = tuple[tuple[str, str], ...]
"""(label or annotation, its key), sorted."""


def keys_of(rules: Iterable[Rule]) -> Keys:
    """The labels and annotations that the rules look at."""
    return tuple(sorted({(str(r.by), r.key) for r in rules if r.by != By.NAMESPACE}))


def written(keys: Keys) -> str:
    """As text, never empty."""
    return msgspec.json.encode(keys).decode()


def read(text: str) -> Keys | None:
    """None for text that is empty or no keys."""
    try:
        return msgspec.json.decode(text, type=tuple[tuple[str, str], ...])
    except msgspec.MsgspecError:
        return None


def answers(text: str, wanted: Keys) -> bool:
    """Whether owners told apart by the keys of `text` are told apart by those that are wanted, too."""
    keys = read(text)
    return keys is not None and set(wanted) <= set(keys)


def values_of(namespace: str, labels: Any, annotations: Any, keys: Keys) -> Values:
    """Of one workload. What is no text is as if it were not there."""
    words: dict[str, Any] = {By.LABEL: labels, By.ANNOTATION: annotations}
    return namespace, *(_text(words[by], key) for by, key in keys)


def owner_of(values: Values, keys: Keys) -> Owner | None:
    """What a rule is asked about; None for nobody."""
    if not values:
        return None
    words: dict[str, dict[str, object]] = {By.LABEL: {}, By.ANNOTATION: {}}
    for (by, key), value in zip(keys, values[1:], strict=False):
        if value is not None:
            words[by][key] = value
    return Owner(values[0] or "", words[By.LABEL], words[By.ANNOTATION])


def looked_up(cluster: Cluster, workloads: Collection[int], keys: Keys) -> dict[int, Values]:
    """Primary key -> values as they are now; nobody's are empty. One query for each BATCH of workloads."""
    found: dict[int, Values] = {}
    wanted = sorted(workloads)
    fields = ("pk", "kind", "namespace", *_columns(keys))
    for first in range(0, len(wanted), BATCH):
        rows = Workload.objects.filter(cluster=cluster, pk__in=wanted[first : first + BATCH])
        for pk, kind, namespace, *words in rows.values_list(*fields).iterator(chunk_size=BATCH):
            found[pk] = values_of(namespace, *_both(keys, words), keys) if kind else ()
    return found


def _columns(keys: Keys) -> list[str]:
    """Fields of `Workload` that the keys are in, each of which has to be parsed."""
    kinds = {by for by, _ in keys}
    return [field for field, by in (("labels", By.LABEL), ("annotations", By.ANNOTATION)) if str(by) in kinds]


def _both(keys: Keys, words: list[Any]) -> tuple[Any, Any]:
    by_field = dict(zip(_columns(keys), words, strict=True))
    return by_field.get("labels"), by_field.get("annotations")


def _text(words: Mapping[str, object] | None, key: str) -> str | None:
    value = (words or {}).get(key)
    return value if isinstance(value, str) else None
