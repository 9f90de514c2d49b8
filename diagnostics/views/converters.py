"""How addresses carry names out of a cluster.

Registered as this is imported, which happens once, however often `diagnostics.urls` fails to be.
"""

from urllib.parse import unquote

from django.urls import register_converter


class NameConverter:
    """Whatever a cluster calls its objects; a slash or line break must not make a page fail."""

    regex = r"[\s\S]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class PartConverter:
    """One of several names in an address: a slash in it must not pass for the end of it."""

    regex = r"[^/]+"

    def to_python(self, value: str) -> str:
        return unquote(value)

    def to_url(self, value: str) -> str:
        written = value.replace("%", "%25").replace("/", "%2F")
        # Browsers take these for steps between folders.
        return written.replace(".", "%2E") if written in {".", ".."} else written


register_converter(NameConverter, "name")
register_converter(PartConverter, "part")
