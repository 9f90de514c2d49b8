"""`up`: the whole dashboard on this machine, with one command."""

import json
import os
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from celery import current_app
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connection

from diagnostics.clusters import DeclarationError, declaration
from diagnostics.management import children, past, signin
from diagnostics.management.listener import NotFree, listener_at, url_of
from diagnostics.management.named import named_cluster
from diagnostics.management.ready import NotReady, until_broker_answers, until_web_answers
from diagnostics.management.running import AlreadyRunning, RunningLock
from diagnostics.management.simulated import SLUG, Simulation, simulation
from diagnostics.management.supervisor import ChildDied, Supervisor
from diagnostics.models import Observation
from diagnostics.text import counted


class Command(BaseCommand):
    help = (
        "Start the dashboard: web, worker, beat, a bundled Valkey (unless GPUHEALTH_BROKER_URL is set) and, if no "
        "cluster is named here or in the settings, a simulated one. Ctrl-C ends all of it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--kubeconfig", metavar="FILE", help="how to reach the cluster to watch")
        parser.add_argument("--context", default="", help="context in the kubeconfig, if not the current one")
        parser.add_argument("--prometheus", metavar="URL", default="", help="where its GPU metrics are")
        parser.add_argument(
            "--exporter",
            metavar="URL",
            action="append",
            default=[],
            help="a dcgm-exporter, where there is no Prometheus; may be repeated",
        )
        parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
        parser.add_argument("--port", type=int, default=8000, help="port to listen at (default: %(default)s)")
        parser.add_argument(
            "--data-dir", metavar="DIR", help="where everything is kept; or GPUHEALTH_DATA_DIR"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with ExitStack() as stack:
                self._run(stack, options)
        except (AlreadyRunning, ChildDied, DeclarationError, NotFree, NotReady) as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            pass
        self.stdout.write("\nEnded.")

    def _run(self, stack: ExitStack, options: dict[str, Any]) -> None:
        """Each step leaves on the stack what has to be undone at the end."""
        _check_data_dir(options["data_dir"])
        lock = stack.enter_context(RunningLock(settings.DATA_DIR))
        named = named_cluster(options)
        listener = stack.enter_context(listener_at(options["host"], options["port"]))
        self._say("data", settings.DATA_DIR)
        self._prepare()
        env = _environment()
        simulated = None
        if named:
            env["GPUHEALTH_CLUSTERS"] = _watch(named)
        elif not settings.CLUSTERS:
            simulated = self._simulated(stack)
            env["GPUHEALTH_CLUSTERS"] = _watch({SLUG: simulated.fields})
            env.setdefault("GPUHEALTH_BACKFILL", f"{past.REACH.days}d")
        else:
            self._say("clusters", ", ".join(settings.CLUSTERS))

        supervisor = stack.enter_context(Supervisor(settings.DATA_DIR / "logs", env, settings.BASE_DIR))
        if "GPUHEALTH_BROKER_URL" not in env:
            env["GPUHEALTH_BROKER_URL"] = settings.BROKER_URL = _start_broker(stack, supervisor)
        supervisor.start("web", children.web(listener), fds=(listener.fileno(),))
        url = url_of(listener)
        until_web_answers(supervisor, url)
        lock.announce(url)
        self._say("ready", url)
        self._invite(signin.link(signin.local_user(), url))
        if simulated and past.is_wanted(SLUG) and not self._history(supervisor, simulated):
            return
        # After the link, because all of them at once would keep each other from starting.
        supervisor.start("worker", children.worker())
        supervisor.start("beat", children.beat(settings.DATA_DIR / "beat-schedule"))
        # Beat begins with a pause; hours that were observed before are rolled up for plots.
        for task in ("observe_all", "backfill_all", "retain_all"):
            name = f"diagnostics.tasks.{task}"
            current_app.send_task(name, expires=settings.POLL_INTERVAL.total_seconds())
        connection.close()
        supervisor.wait()

    def _prepare(self) -> None:
        """Database and static files, brought up to date."""
        try:
            call_command("migrate", interactive=False, verbosity=0)
        except OperationalError as error:
            msg = f"the database cannot be used: {error}"
            raise CommandError(msg) from None
        self._say("database", connection.display_name)
        if "GPUHEALTH_STATIC_ROOT" not in os.environ:
            settings.STATIC_ROOT = settings.DATA_DIR / "static"
        call_command("collectstatic", interactive=False, verbosity=0)

    def _simulated(self, stack: ExitStack) -> Simulation:
        running = stack.enter_context(simulation(settings.DATA_DIR / SLUG))
        self._say("cluster", "simulated: 16 nodes, 128 GPUs, some of them in trouble")
        return running

    def _history(self, supervisor: Supervisor, simulated: Simulation) -> bool:
        """Observe the simulated past, before live polls begin; False when it is time to end."""
        connection.close()
        self._say(
            "history",
            f"two simulated weeks are observed first; {supervisor.logs / 'history.log'} tells how far",
        )
        program = children.simulated_past(SLUG, simulated.url, settings.DATA_DIR / SLUG)
        status = supervisor.run("history", program)
        if status is None:
            return False
        last = Observation.objects.order_by("-pk").first()
        found = counted(last.critical + last.warning + last.info if last else 0, "finding")
        self._say("", f"done: {found} now" if not status else f"ended with status {status}: see its log")
        return True

    def _say(self, what: str, value: object) -> None:
        self.stdout.write(f"{what:<10}{value}")
        self.stdout.flush()

    def _invite(self, link: str) -> None:
        self.stdout.write(f"\nSign in:  {link}\n\n")
        self.stdout.write("The link works once, within 15 minutes; `gpuhealth signin_link` prints another.")
        self.stdout.write("Ctrl-C ends everything.\n")
        self.stdout.flush()


def _check_data_dir(given: str | None) -> None:
    """The settings read it from the command line, because all else depends on it; by then it is too late here."""
    if given and Path(given).expanduser().absolute() != settings.DATA_DIR:
        msg = "--data-dir cannot be changed from within Django: set GPUHEALTH_DATA_DIR"
        raise CommandError(msg)


def _environment() -> dict[str, str]:
    """What the children see."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", "gpuhealth.settings"),
        "GPUHEALTH_DATA_DIR": str(settings.DATA_DIR),
        "GPUHEALTH_STATIC_ROOT": str(settings.STATIC_ROOT),
        # A poll that is under way is dropped, not waited for: nothing of it is kept, and the next one is due.
        "REMAP_SIGTERM": "SIGQUIT",
    }


def _watch(fields: dict[str, dict[str, Any]]) -> str:
    """Add clusters to the declared ones in this process; the same for the children, as GPUHEALTH_CLUSTERS."""
    inline = json.loads(os.environ.get("GPUHEALTH_CLUSTERS") or "{}")
    if again := fields.keys() & (settings.CLUSTERS.keys() - {SLUG}):
        msg = f"the settings declare {', '.join(again)} already"
        raise CommandError(msg)
    settings.CLUSTERS = settings.CLUSTERS | declaration({"clusters": fields}, "up").clusters
    return json.dumps(inline | fields)


def _start_broker(stack: ExitStack, supervisor: Supervisor) -> str:
    path = stack.enter_context(children.broker_socket())
    supervisor.start("broker", children.broker(path))
    until_broker_answers(supervisor, path)
    return f"redis+socket://{path}"
