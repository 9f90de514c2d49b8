"""`signin_link [username]`: print a fresh one-time sign-in link."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from diagnostics.management import signin
from diagnostics.management.running import running_url


class Command(BaseCommand):
    help = "Print a link that signs in once, within a quarter of an hour."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", nargs="?", default="", help="default: admin")
        parser.add_argument("--url", default="", help="where the dashboard is reached, if not by `up` here")
        parser.add_argument("--data-dir", help="as given to `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        base = options["url"] or running_url(settings.DATA_DIR) or "http://127.0.0.1:8000"
        self.stdout.write(signin.link(signin.local_user(options["username"]), base))
