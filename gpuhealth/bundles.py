"""Static files that Python packages bring along: found where they are installed, never copied into the project."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.utils import matches_patterns
from django.core.files.storage import FileSystemStorage

PREFIX = "plotly"
BUNDLE = "plotly.min.js"


def plotly_folder() -> Path:
    """Where the plotly package keeps its script; not imported, because that takes a second."""
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        msg = "the package plotly is not installed"
        raise ModuleNotFoundError(msg, name="plotly")
    return Path(spec.origin).parent / "package_data"


class PlotlyFinder(BaseFinder):
    """`plotly/plotly.min.js`, always in step with the package."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.storage = FileSystemStorage(location=plotly_folder())
        self.storage.prefix = PREFIX  # type: ignore[attr-defined]  # collectstatic reads it

    def check(self, **_: Any) -> list[Any]:
        """Nothing to check."""
        return []

    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:
        if Path(path) != Path(PREFIX, BUNDLE):
            return []
        found = self.storage.path(BUNDLE)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        if not matches_patterns(BUNDLE, ignore_patterns or ()):
            yield BUNDLE, self.storage
