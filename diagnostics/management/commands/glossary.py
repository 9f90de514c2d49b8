"""Prints the terms of the glossary, or writes it into docs/ as Markdown."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from diagnostics.glossary import TERMS, markdown


class Command(BaseCommand):
    """`manage.py glossary [--markdown]`."""

    help = "List the terms of the glossary; --markdown writes docs/glossary.md."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One switch."""
        parser.add_argument("--markdown", action="store_true", help="write docs/glossary.md")

    def handle(self, *args: Any, **options: Any) -> None:
        """Without the switch, one line per term."""
        if not options["markdown"]:
            for term in TERMS.values():
                self.stdout.write(f"{term.slug:18}  {term.name}")
            return
        path = Path(settings.BASE_DIR) / "docs" / "glossary.md"
        path.write_text(markdown())
        self.stdout.write(f"wrote {path}")
