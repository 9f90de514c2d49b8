"""The cluster that is named on the command line of `up`, as a declaration."""

from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import CommandError
from django.utils.text import slugify

from diagnostics.clusters import declaration

FALLBACK = "cluster"


def named_cluster(options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """{slug: fields as in the settings}; empty when none is named. Raises CommandError, DeclarationError."""
    kubeconfig, context = options["kubeconfig"], options["context"]
    if not kubeconfig and not context:
        if options["prometheus"] or options["exporter"]:
            msg = "--prometheus and --exporter go with the cluster of --kubeconfig or --context"
            raise CommandError(msg)
        return {}
    fields: dict[str, Any] = {"context": context, "exporters": options["exporter"]}
    if kubeconfig:
        path = Path(kubeconfig).expanduser().absolute()
        if not path.is_file():
            msg = f"there is no kubeconfig {path}"
            raise CommandError(msg)
        fields["kubeconfig"] = str(path)
        context = context or _current_context(path)
    fields["name"] = context or FALLBACK
    if options["prometheus"]:
        fields["prometheus"] = {"url": options["prometheus"]}
    slug = slugify(fields["name"])[:40].strip("-_").replace("_", "-") or FALLBACK
    declaration({"clusters": {slug: fields}}, "up")
    return {slug: fields}


def _current_context(path: Path) -> str:
    """Only a name for people: what is wrong with the file is said when the cluster is polled."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return ""
    name = content.get("current-context") if isinstance(content, dict) else None
    return name if isinstance(name, str) else ""
