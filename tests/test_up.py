"""`up` as a person runs it: real processes, from an empty folder to a page, and nothing left behind."""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings
from psycopg import sql

from tests.processes import ROOT, Process, family, processes
from tests.servers import free_port

WITHIN_S = 100

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def database() -> Iterator[dict[str, str]]:
    """Of its own: SQLite in the data directory, or a new database of the server that the tests use."""
    given = settings.DATABASES["default"]
    if "GPUHEALTH_DATABASE_URL" not in os.environ or given["ENGINE"].endswith("sqlite3"):
        yield {}
        return
    name = f"up_{os.getpid()}"
    login = {
        "user": given["USER"],
        "password": given["PASSWORD"],
        "host": given["HOST"],
        "port": given["PORT"],
    }
    with closing(psycopg.connect(dbname="postgres", autocommit=True, **login)) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            parts = urlsplit(os.environ["GPUHEALTH_DATABASE_URL"])
            yield {"GPUHEALTH_DATABASE_URL": parts._replace(path=f"/{name}").geturl()}
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


class Up:
    """One running `up` and what it printed."""

    def __init__(self, folder: Path, environment: dict[str, str], *arguments: str) -> None:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUHEALTH_")}
        broker = {k: v for k, v in os.environ.items() if k == "GPUHEALTH_BROKER_URL"}
        folder.mkdir(exist_ok=True)
        self.family: list[Process] = []
        self.port = free_port()
        self.printed = folder / f"printed-{time.monotonic_ns()}"
        command = [sys.executable, "manage.py", "up", "--data-dir", str(folder / "data")]
        with self.printed.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), *arguments],
                cwd=ROOT,
                env={**plain, **broker, **environment, "DJANGO_SETTINGS_MODULE": "gpuhealth.settings"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def text(self) -> str:
        return self.printed.read_text(errors="replace")

    def until(self, what: Callable[[], object], *, is_running: bool = True) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not what():
            assert time.monotonic() < deadline, self.text
            assert not is_running or self.process.poll() is None, self.text
            time.sleep(0.1)

    def until_ready(self) -> "Up":
        self.until(lambda: "Ctrl-C ends everything" in self.text)
        return self

    def get(self, path: str, **headers: str) -> http.client.HTTPResponse:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            self.body = response.read().decode()
            return response

    def page(self, path: str, cookie: str) -> str:
        self.get(path, Cookie=cookie)
        return self.body

    def with_children(self, *wanted: str) -> "Up":
        """Broker, worker, beat and web are there, or those that are wanted."""
        names = list(wanted or ("gunicorn", "worker", "beat"))
        if "GPUHEALTH_BROKER_URL" not in os.environ:
            names.append("valkey-server")

        def all_there() -> bool:
            self.family = family(self.process.pid)
            return all(any(name in p.line for p in self.family) for name in names)

        self.until(all_there)
        return self

    def child(self, name: str) -> int:
        """Process id of the child with this word in its command line."""
        return next(p.pid for p in self.family if p.parent == self.process.pid and name in p.line)

    def left(self) -> list[Process]:
        """What still runs of the family as it was last seen."""
        pids = {p.pid for p in self.family}
        return [p for p in processes() if p.pid in pids]

    def ended(self) -> int:
        """Its status; all that it had started is gone by then."""
        if self.process.poll() is None:
            self.family += family(self.process.pid)
        status = self.process.wait(WITHIN_S)
        assert self.left() == []
        return status


@pytest.fixture
def unreachable(tmp_path: Path) -> tuple[str, ...]:
    """Arguments that name a cluster where nobody answers."""
    path = tmp_path / "kubeconfig"
    server = {"name": "far", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}
    context = {"name": "far", "context": {"cluster": "far", "user": "u"}}
    path.write_text(
        json.dumps({"clusters": [server], "contexts": [context], "users": [{"name": "u", "user": {}}]})
    )
    return ("--kubeconfig", str(path), "--context", "far")


@pytest.fixture
def start(tmp_path: Path, database: dict[str, str]) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def begin(*arguments: str) -> Up:
        started.append(Up(tmp_path, database, *arguments))
        return started[-1]

    yield begin
    for up in started:
        if up.process.poll() is None:
            up.process.terminate()
            up.process.wait(WITHIN_S)


def test_from_nothing_to_findings_and_back_to_nothing(
    start: Callable[..., Up], tmp_path: Path, database: dict[str, str]
) -> None:
    up = start().until_ready().with_children("gunicorn", "simulated_past")

    assert up.get("/healthz").status == 200
    assert up.get("/").getheader("Location") == "/login/?next=/"
    link = re.search(rf"http://127\.0\.0\.1:{up.port}(/login/link/\S+)", up.text)
    assert link, up.text
    entered = up.get(link[1])
    assert entered.status == 302
    cookie = "; ".join(c.partition(";")[0] for c in entered.headers.get_all("Set-Cookie") or [])
    # The first poll of the past has come, or will soon: the pages are there all the same.
    up.until(lambda: up.get("/c/simulated/findings/", Cookie=cookie).status == 200)
    assert "GPU" in up.body
    assert "history   two simulated weeks are observed first" in up.text
    up.until(lambda: "its past is being observed" in up.page("/c/simulated/findings/", cookie))
    stylesheet = re.search(r'href="(/static/css/[^"]+\.[0-9a-f]{12}\.css)"', up.body)
    assert stylesheet, "static files have names that change with their content"
    assert up.get(stylesheet[1]).status == 200
    assert up.get(link[1]).getheader("Location") == "/login/", "the link works once"

    second = start()
    assert second.process.wait(WITHIN_S) == 1
    assert (
        f"runs already on {tmp_path / 'data'} (process {up.process.pid}, at http://127.0.0.1:{up.port}/)"
        in (second.text)
    )

    up.process.send_signal(signal.SIGINT)
    assert up.ended() == 0
    assert up.text.endswith("Ended.\n")
    assert "Traceback" not in up.text

    polls = observed(tmp_path, database)
    assert polls
    again = start().until_ready()
    again.until(lambda: "history" in again.text)
    again.until(lambda: len(observed(tmp_path, database)) > len(polls))
    again.process.terminate()
    assert again.ended() == 0
    moments = observed(tmp_path, database)
    assert moments[: len(polls)] == polls, "an interrupted history goes on where it was"
    assert moments == sorted(set(moments))


def observed(folder: Path, database: dict[str, str]) -> list[str]:
    """The moments that have been observed, in the order in which they were."""
    asked = "SELECT taken_at FROM diagnostics_observation ORDER BY id"
    if database:
        with psycopg.connect(database["GPUHEALTH_DATABASE_URL"]) as server:
            return [at.isoformat() for (at,) in server.execute(asked)]
    with closing(sqlite3.connect(f"file:{folder}/data/gpuhealth.sqlite3?mode=ro", uri=True)) as file:
        return [str(at) for (at,) in file.execute(asked)]


@pytest.mark.parametrize("name", ["gunicorn", "beat"])
def test_when_a_child_dies_all_end_and_it_is_named(
    start: Callable[..., Up], unreachable: tuple[str, ...], name: str
) -> None:
    up = start(*unreachable).until_ready().with_children()
    os.kill(up.child(name), signal.SIGKILL)
    assert up.ended() == 1
    assert f"{ {'gunicorn': 'web'}.get(name, name) } was ended by SIGKILL" in up.text


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_children_die_with_a_parent_that_is_killed(
    start: Callable[..., Up], unreachable: tuple[str, ...]
) -> None:
    up = start(*unreachable).until_ready().with_children()
    up.process.kill()
    up.process.wait()

    up.until(lambda: not up.left(), is_running=False)


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        up = Up(tmp_path, {}, "--port", str(other.getsockname()[1]))
        assert up.process.wait(WITHIN_S) == 1

    assert "is taken by another program; choose one with --port" in up.text
    assert "Traceback" not in up.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kubeconfig", "/does/not/exist"], "there is no kubeconfig /does/not/exist"),
        (["--prometheus", "http://prometheus"], "go with the cluster of --kubeconfig or --context"),
        (["--context", "c", "--exporter", "ftp://x"], "exporter 1: not an http or https address"),
        (["--host", "192.0.2.1"], "cannot listen at 192.0.2.1"),
    ],
)
def test_a_mistake_on_the_command_line_is_said_before_anything_starts(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    up = Up(tmp_path, {}, *arguments)

    assert up.process.wait(WITHIN_S) == 1
    assert message in up.text
    assert "Traceback" not in up.text
