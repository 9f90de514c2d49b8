"""Real programs that some tests talk to: found or skipped, started on free ports of loopback, ended by process id."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest


def program(name: str, package: str) -> str:
    """Path of an installed program; else the test is skipped, or failed where GPUHEALTH_REQUIRE_SERVICES is 1."""
    found = shutil.which(name)
    if found is not None:
        return found
    missing = f"install the Debian package {package}"
    if os.environ.get("GPUHEALTH_REQUIRE_SERVICES") == "1":
        pytest.fail(f"{name} is missing: {missing}")
    pytest.skip(missing)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def running(command: list[str], ready_url: str, log: Path, within_s: float = 30.0) -> Iterator[None]:
    """Run a program until the block ends; it counts as started when `ready_url` answers 200."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + within_s
        while not _answers(ready_url):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{command[0]} did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=1) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def add_blocks(folder: Path, openmetrics: str) -> None:
    """Samples with timestamps among the data of a Prometheus that is started in `folder` later on."""
    data, text = folder / "data", folder / "samples.om"
    data.mkdir(exist_ok=True)
    text.write_text(openmetrics)
    tool = program("promtool", "prometheus")
    made = [tool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)]
    subprocess.run(made, check=True, capture_output=True)
    text.unlink()


@contextmanager
def prometheus(
    folder: Path,
    *,
    targets: dict[str, list[str]] | None = None,
    discovery_url: str = "",
    openmetrics: str = "",
    interval: str = "1s",
) -> Iterator[str]:
    """A real Prometheus with its data in `folder`; gives its URL.

    `targets`: scrape job -> `host:port` addresses, scraped every `interval`. `discovery_url`: an HTTP service
    discovery (http_sd) of a job `dcgm-exporter`. `openmetrics`: samples with timestamps that it holds from the start.
    """
    binary = program("prometheus", "prometheus")
    data = folder / "data"
    data.mkdir(exist_ok=True)
    if openmetrics:
        add_blocks(folder, openmetrics)
    config = folder / "prometheus.yml"
    jobs = "".join(
        f"  - job_name: {job}\n    static_configs: [{{targets: {addresses}}}]\n"
        for job, addresses in (targets or {}).items()
    )
    if discovery_url:
        jobs += f"  - job_name: dcgm-exporter\n    http_sd_configs: [{{url: {discovery_url}}}]\n"
    config.write_text(
        f"global: {{scrape_interval: {interval}, scrape_timeout: {interval}}}\n"
        + (f"scrape_configs:\n{jobs}" if jobs else "")
    )
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        binary,
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={url.removeprefix('http://')}",
    ]
    with running(command, f"{url}/-/ready", folder / "prometheus.log"):
        yield url
