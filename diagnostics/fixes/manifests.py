"""Manifests and patches, always through a YAML or JSON writer: a hostile name stays a string."""

import json
from collections.abc import Mapping
from typing import Any

import yaml


class Lines(str):
    """A text of several lines, such as a file in a ConfigMap, that is written as a block."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _: Any) -> bool:
        """Nobody writes `*id001`."""
        return True


_Dumper.add_representer(
    Lines, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, "|")
)


def to_yaml(document: Mapping[str, Any]) -> str:
    """YAML as people write it: keys in the given order, no aliases."""
    return str(yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, width=100))


def to_json(document: Mapping[str, Any]) -> str:
    """One compact line, for `kubectl patch -p`."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def container_patch(containers: Mapping[str, Mapping[str, Any]], *, kind: str) -> dict[str, Any]:
    """A strategic merge patch that changes named containers of a workload's pod template and nothing else.

    Containers merge by name, so unrelated fields and containers stay (Kubernetes API conventions, patchMergeKey).
    """
    listed = [{"name": name, **changes} for name, changes in containers.items()]
    template: dict[str, Any] = {"spec": {"template": {"spec": {"containers": listed}}}}
    if kind == "Pod":
        return {"spec": {"containers": listed}}
    if kind == "CronJob":
        return {"spec": {"jobTemplate": template}}
    return template
