"""kubectl command lines: every argument goes through the shell's quoting, every line names one object or node."""

import shlex


def kubectl(*words: str) -> str:
    """One shell line; names from a cluster are quoted, so that `shlex.split` gives them back unchanged."""
    return shlex.join(("kubectl", *words))


def named(name: str) -> tuple[str, ...]:
    """`name` as a last argument that cannot be taken for a flag."""
    return ("--", name) if name.startswith("-") else (name,)


def get(kind: str, name: str, namespace: str = "", output: str = "wide") -> str:
    return kubectl("get", kind, *_in(namespace), "-o", output, *named(name))


def get_yaml(kind: str, name: str, namespace: str = "") -> str:
    return get(kind, name, namespace, "yaml")


def describe(kind: str, name: str, namespace: str = "") -> str:
    return kubectl("describe", kind, *_in(namespace), *named(name))


def events_of(kind: str, name: str, namespace: str) -> str:
    return kubectl("events", *_in(namespace), "--for", f"{kind}/{name}")


def logs(pod: str, namespace: str, container: str = "", *, previous: bool = False, tail: int = 200) -> str:
    words = ["logs", *_in(namespace), f"--tail={tail}"]
    if container:
        words += ["-c", container]
    if previous:
        words.append("--previous")
    return kubectl(*words, *named(pod))


def run_in(pod: str, namespace: str, container: str, *command: str) -> str:
    """`command` in a container, or in the pod's first where none is named."""
    within = ("-c", container) if container else ()
    # Before its own `--` a name that begins with a dash is a flag, unless its kind stands before it.
    named_pod = f"pod/{pod}" if pod.startswith("-") else pod
    return kubectl("exec", *_in(namespace), named_pod, *within, "--", *command)


def delete_pod(pod: str, namespace: str, *, force: bool = False) -> str:
    forced = ["--grace-period=0", "--force"] if force else []
    return kubectl("delete", "pod", *_in(namespace), *forced, *named(pod))


def pods_on_node(node: str, namespace: str = "", *, holding: bool = False) -> str:
    """Pods of one node; `holding`: without the finished ones, which hold no GPU."""
    selector = f"spec.nodeName={node}"
    if holding:
        selector += ",status.phase!=Succeeded,status.phase!=Failed"
    where = _in(namespace) if namespace else ["-A"]
    return kubectl("get", "pods", *where, "-o", "wide", "--field-selector", selector)


def patch(kind: str, name: str, namespace: str, body: str) -> str:
    """A strategic merge patch of one object; `body` is JSON. A server-side dry run shows what it would change."""
    return kubectl("patch", kind, *_in(namespace), "--type=strategic", "-p", body, *named(name))


def _in(namespace: str) -> list[str]:
    return ["-n", namespace] if namespace else []
