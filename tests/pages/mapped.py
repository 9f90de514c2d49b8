"""What tests read off the cluster map."""

import re
from typing import Any

from django.test import Client

from diagnostics.snapshot import Metrics, Snapshot, State
from tests.builders import NOW, gpu, node, owner, pod, snapshot
from tests.pages.test_findings import flat as flattened

MAP = "/c/lab/map/"


def read(browser: Client, query: str = "") -> str:
    return browser.get(MAP + query).content.decode()


def flat(text: str) -> str:
    """Words as they are read: no blank between a name and its colon."""
    return flattened(text).replace(" :", ":")


def cells(text: str) -> list[tuple[str, str]]:
    """(classes, letter) of each GPU, in the order of the page."""
    return re.findall(r'<a class="([^"]*)" href="/c/lab/gpus/[^>]*>([^<]*)</a>', text)


def letters(browser: Client, query: str = "") -> str:
    """Of all GPUs in a row; a blank for a dimmed one."""
    return "".join(letter or " " for _, letter in cells(read(browser, query)))


def measured(**fields: Any) -> Metrics:
    return Metrics(sampled_at=NOW, **fields)


def held(
    index: int, by: str = "train", on: str = "gpu-1", kind: str = "Job", **fields: Any
) -> tuple[Any, Any]:
    """A GPU and the pod of that owner that holds it."""
    holder = pod(f"{by}-{on}-{index}", root=owner(kind, by), node=on)
    return gpu(index, on, **({"state": State.EFFECTIVE, "holders": (holder.key,)} | fields)), holder


def of_one(*parts: Any, **fields: Any) -> Snapshot:
    return snapshot(node(), *parts, **fields)
