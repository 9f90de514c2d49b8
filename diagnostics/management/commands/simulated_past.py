"""`simulated_past`: what `up` runs once, to give a new simulated cluster its history."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from diagnostics.management.past import observe_past


class Command(BaseCommand):
    help = "Observe the past of the simulated cluster at an address. Started by `up`."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("url")
        parser.add_argument("folder", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        for poll in observe_past(options["slug"], options["url"], options["folder"]):
            found = poll.critical + poll.warning + poll.info
            words = poll.error or f"{found} findings"
            self.stdout.write(f"{poll.taken_at:%Y-%m-%d %H:%M} {poll.status}: {words}")
            self.stdout.flush()
