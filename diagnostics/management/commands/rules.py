"""Prints the catalogue of rules, or writes it into docs/ as Markdown."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from diagnostics.rules import catalogue
from diagnostics.rules.documentation import limits_markdown, markdown


class Command(BaseCommand):
    """`manage.py rules [--markdown]`."""

    help = "List the rules; --markdown writes docs/rules.md and docs/limits.md."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One switch."""
        parser.add_argument("--markdown", action="store_true", help="write docs/rules.md and docs/limits.md")

    def handle(self, *args: Any, **options: Any) -> None:
        """Without the switch, one line per rule."""
        if not options["markdown"]:
            for rule in catalogue():
                self.stdout.write(f"{rule.code}  {rule.slug:28}  {rule.title}")
            return
        docs = Path(settings.BASE_DIR) / "docs"
        docs.mkdir(exist_ok=True)
        (docs / "rules.md").write_text(markdown(catalogue()))
        (docs / "limits.md").write_text(limits_markdown())
        self.stdout.write(f"wrote {docs / 'rules.md'} and {docs / 'limits.md'}")
