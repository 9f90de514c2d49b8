"""Configuration and sign-in by the official client, with a sentence instead of a trace where they go wrong."""

import binascii
import logging
import os
import threading
from pathlib import Path

import urllib3
import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from diagnostics.collect.refusal import Refused, failed
from diagnostics.collect.target import Target

_CONFIG_MODULE = "kube_config.py"


def api_client(target: Target) -> ApiClient:
    """A client of the official library, signed in as the target says. Raises `Refused`.

    Files are read anew on each call, so that a rotated token or certificate counts from the next poll on. Nothing
    is written back to the kubeconfig.
    """
    configuration = Configuration()
    # A sign-in plugin is a program of its own and may wait for ever: it gets twice the time of a request.
    limit_s = 2 * target.request_timeout_s
    outcome: list[Exception | None] = []
    loader = threading.Thread(target=_load, args=(target, configuration, outcome), daemon=True)
    loader.start()
    loader.join(limit_s)
    if not outcome:
        raise failed(f"the kubeconfig's sign-in plugin did not finish within {limit_s:.0f} s")
    if isinstance(outcome[0], Refused):
        raise outcome[0]
    if outcome[0] is not None:
        raise failed(_sentence(target, outcome[0])) from None
    # One pass is shorter than any token lives; the hook would run a plugin again in the middle of it.
    configuration.refresh_api_key_hook = None
    if not configuration.verify_ssl:
        # The kubeconfig asks for it; one warning for each request tells nobody anything.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    try:
        return ApiClient(configuration)
    except (OSError, ValueError, ImportError, urllib3.exceptions.HTTPError) as error:
        raise failed(_sentence(target, error)) from None


def _load(target: Target, configuration: Configuration, outcome: list[Exception | None]) -> None:
    """Runs in a thread of its own; leaves exactly one entry in `outcome`."""
    try:
        if target.in_cluster:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            _load_kubeconfig(target, configuration)
        outcome.append(None)
    except Exception as error:  # a hand-written file makes the loader fail in any way at all
        outcome.append(error)


def current_context(target: Target) -> str:
    """Name of the context that would be used, for people to read; empty where no kubeconfig tells it."""
    if target.context or target.in_cluster:
        return target.context
    paths = str(target.kubeconfig or os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser())
    try:
        merged = KubeConfigMerger(paths).config  # type: ignore[no-untyped-call]
        return str(merged["current-context"]) if merged and merged.safe_get("current-context") else ""
    except Exception:  # a hand-written file makes the loader fail in any way; reading it for real says why
        return ""


def _load_kubeconfig(target: Target, configuration: Configuration) -> None:
    paths = str(target.kubeconfig or os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser())
    merged = KubeConfigMerger(paths).config  # type: ignore[no-untyped-call]
    if merged is None:
        raise failed(f"there is no kubeconfig at {paths}")
    settings = {"config_dict": merged, "active_context": target.context or None, "config_base_path": None}
    loader = KubeConfigLoader(**settings)  # type: ignore[no-untyped-call]
    with _LoaderComplaints() as complaints:
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
    user = loader.current_context["context"].get("user")
    users = merged["users"] if merged.safe_get("users") else None
    entry = users.get_with_name(user, safe=True) if users is not None and user else None
    wants_plugin = entry is not None and "exec" in (entry.value.get("user") or {})
    # The loader only logs a plugin's failure, and would then go on as an anonymous user.
    if wants_plugin and not configuration.api_key and not configuration.cert_file:
        why = "; ".join(complaints.messages) or "it gave neither a token nor a certificate"
        raise failed(f"the kubeconfig's sign-in plugin failed: {why}")


class _LoaderComplaints(logging.Filter):
    """Takes what the loader says on the root logger in this thread, since a plugin's output may hold secrets."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread or not record.pathname.endswith(_CONFIG_MODULE):
            return True
        self.messages.append(record.getMessage())
        return False

    def __enter__(self) -> "_LoaderComplaints":
        logging.getLogger().addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeFilter(self)


def _sentence(target: Target, error: Exception) -> str:
    """What is wrong with the configuration. Only the library's own sentences are quoted: others may hold its text."""
    where = f"kubeconfig {target.kubeconfig}" if target.kubeconfig else "kubeconfig"
    if target.in_cluster:
        return f"not usable from inside the cluster: {error}"
    match error:
        case ConfigException():
            words = str(error)
            if target.context and f"name {target.context} in" in words and "/contexts" in words:
                return f"{where} has no context {target.context!r}"
            # Its paths repeat whole entries, credentials included: keep the sentence before them.
            return f"{where} is not valid: {words.split(' in ', maxsplit=1)[0]}"
        case yaml.YAMLError():
            mark = getattr(error, "problem_mark", None)
            return f"{where} is not valid YAML" + (f" (line {mark.line + 1})" if mark is not None else "")
        case FileNotFoundError() | PermissionError() | IsADirectoryError():
            return f"{error.filename}, which the {where} needs, cannot be read: {error.strerror}"
        case binascii.Error():
            return f"{where} holds a certificate, key or authority that is not valid base64"
        case UnicodeDecodeError():
            return f"{where} is not a text file"
    return f"{where} is not valid ({type(error).__name__})"
