"""`up` as a person runs it: real processes, from an empty folder to a page, and nothing left behind."""

import http.client
import os
import re
import signal
import socket
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

from tests.processes import ROOT
from tests.servers import free_port

WITHIN_S = 90

# Everything of one run shares its folder, so the tests build on each other's.
pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
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
        self.family: set[int] = set()
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
            time.sleep(0.05)

    def until_ready(self) -> "Up":
        self.until(lambda: "Ctrl-C ends everything" in self.text)
        return self

    def get(self, path: str, **headers: str) -> http.client.HTTPResponse:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            self.body = response.read().decode()
            return response

    def ended(self) -> int:
        """Its status; all that it had started is gone by then."""
        family = descendants(self.process.pid) | self.family
        status = self.process.wait(WITHIN_S)
        assert {pid: line for pid, line in processes().items() if pid in family} == {}
        return status

    def with_children(self) -> "Up":
        """Broker, worker, beat and web are there."""
        names = ["gunicorn", "worker", "beat"] + (
            [] if "GPUHEALTH_BROKER_URL" in os.environ else ["valkey-server"]
        )

        def all_there() -> bool:
            self.family = descendants(self.process.pid)
            lines = " ".join(line for pid, line in processes().items() if pid in self.family)
            return all(name in lines for name in names)

        self.until(all_there)
        return self

    def child(self, name: str) -> int:
        return next(
            pid for pid, line in processes().items() if pid in children(self.process.pid) and name in line
        )


def table() -> list[tuple[int, int, str]]:
    """(process, parent, command line) of everything that runs."""
    listing = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 3) for line in listing.stdout.splitlines()]
    return [(int(row[0]), int(row[1]), row[3]) for row in rows if len(row) == 4 and row[2][0] != "Z"]


def processes() -> dict[int, str]:
    return {pid: line for pid, _, line in table()}


def children(parent: int) -> set[int]:
    return {pid for pid, above, _ in table() if above == parent}


def descendants(parent: int) -> set[int]:
    found = {parent}
    for _ in range(5):
        found |= {pid for pid, above, _ in table() if above in found}
    return found - {parent}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("up")


@pytest.fixture
def start(folder: Path, database: dict[str, str]) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def begin(*arguments: str) -> Up:
        started.append(Up(folder, database, *arguments))
        return started[-1]

    yield begin
    for up in started:
        if up.process.poll() is None:
            up.process.terminate()
            up.process.wait(WITHIN_S)


def test_from_nothing_to_findings_and_back_to_nothing(start: Callable[..., Up], folder: Path) -> None:
    up = start().until_ready().with_children()

    assert up.get("/healthz").status == 200
    assert up.get("/").getheader("Location") == "/login/?next=/"
    link = re.search(rf"http://127\.0\.0\.1:{up.port}(/login/link/\S+)", up.text)
    assert link, up.text
    entered = up.get(link[1])
    assert entered.status == 302
    cookie = str(entered.getheader("Set-Cookie")).partition(";")[0]
    assert up.get("/c/simulated/findings/", Cookie=cookie).status == 200
    assert "GPU" in up.body
    assert re.search(r"history +35 simulated minutes, [1-9]\d* findings", up.text)
    stylesheet = re.search(r'href="(/static/css/[^"]+\.[0-9a-f]{12}\.css)"', up.body)
    assert stylesheet, "static files have names that change with their content"
    assert up.get(stylesheet[1]).status == 200
    assert up.get(link[1]).getheader("Location") == "/login/", "the link works once"

    second = start()
    assert second.process.wait(WITHIN_S) == 1
    assert (
        f"runs already on {folder / 'data'} (process {up.process.pid}, at http://127.0.0.1:{up.port}/)"
        in (second.text)
    )

    up.process.send_signal(signal.SIGINT)
    assert up.ended() == 0
    assert up.text.endswith("Ended.\n")
    assert "Traceback" not in up.text


@pytest.mark.parametrize("name", ["gunicorn", "beat"])
def test_when_a_child_dies_all_end_and_it_is_named(start: Callable[..., Up], name: str) -> None:
    up = start().until_ready().with_children()
    assert "history" not in up.text, "only a new database gets a history"

    os.kill(up.child(name), signal.SIGKILL)
    assert up.ended() == 1
    assert f"{ {'gunicorn': 'web'}.get(name, name) } was ended by SIGKILL" in up.text


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_children_die_with_a_parent_that_is_killed(start: Callable[..., Up]) -> None:
    up = start().until_ready().with_children()
    up.process.kill()
    up.process.wait()

    up.until(lambda: not (up.family & processes().keys()), is_running=False)


def test_a_port_that_is_taken_is_said(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        up = Up(folder / "elsewhere", {}, "--port", str(other.getsockname()[1]))
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
    folder: Path, arguments: list[str], message: str
) -> None:
    up = Up(folder / "elsewhere", {}, *arguments)

    assert up.process.wait(WITHIN_S) == 1
    assert message in up.text
    assert "Traceback" not in up.text
