"""`python -m diagnostics.simulator`: serve a simulated cluster until Ctrl-C."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from diagnostics.simulator import exporter
from diagnostics.simulator.config import DEMO, FEWEST_NODES, WORKING_WEEK, WorldConfig
from diagnostics.simulator.faults import CATALOGUE
from diagnostics.simulator.server import Clock, SimulatedCluster, wall_clock

PAST = timedelta(days=16)
"""Of the week, so that its Prometheus has two of them."""


def chosen(faults: str, nodes: int | None, pods: int | None, seed: int) -> WorldConfig:
    """`faults`: `week`, `demo`, `all`, `none`, or slugs separated by commas. All of them need a larger cluster."""
    if faults == "week":
        return replace(WORKING_WEEK, nodes=nodes or WORKING_WEEK.nodes, pods=pods, seed=seed)
    every = {"demo": DEMO.faults, "all": tuple(CATALOGUE), "none": ()}
    slugs = every.get(faults, tuple(s.strip() for s in faults.split(",") if s.strip()))
    return WorldConfig(
        nodes=nodes or (2 * FEWEST_NODES if faults == "all" else FEWEST_NODES),
        pods=pods,
        seed=seed,
        faults=slugs,
    )


def clock_from(start: datetime | None) -> Clock:
    """The wall clock, or one that begins at `start` and runs on."""
    if start is None:
        return wall_clock
    start = start if start.tzinfo else start.replace(tzinfo=UTC)
    shift = start - wall_clock()
    return lambda: wall_clock() + shift


@click.command(help=__doc__)
@click.option("--port", default=0, show_default="any free one")
@click.option(
    "--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="Write one for this cluster."
)
@click.option("--nodes", type=int, help="8 GPUs each; 12 unless told otherwise.")
@click.option("--pods", type=int, help="Add healthy pods until there are this many.")
@click.option(
    "--faults", default="demo", show_default=True, help="Slugs with commas, or week, demo, all, none."
)
@click.option("--seed", default=7, show_default=True)
@click.option(
    "--at", type=click.DateTime(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"]), help="Begin at this time, UTC."
)
@click.option("--token", default="", help="The one bearer token that is let in.")
@click.option(
    "--openmetrics",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the last hour's metrics for `promtool tsdb create-blocks-from openmetrics`, and end.",
)
def main(  # noqa: PLR0913, PLR0917
    port: int,
    kubeconfig: Path | None,
    nodes: int | None,
    pods: int | None,
    faults: str,
    seed: int,
    at: datetime | None,
    token: str,
    openmetrics: Path | None,
) -> None:
    clock = clock_from(at)
    try:
        config = chosen(faults, nodes, pods, seed)
        if openmetrics:
            now = clock()
            lines = exporter.history(
                replace(config, epoch=now), now - timedelta(hours=1), now, timedelta(seconds=30)
            )
            with openmetrics.open("w", encoding="utf-8") as file:
                file.writelines(lines)
            return
        if config.schedule:
            config = replace(config, epoch=clock() - PAST)
        cluster = SimulatedCluster(config, clock, port, token)
        cluster.states.at(clock())
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with cluster:
        if kubeconfig:
            cluster.write_kubeconfig(kubeconfig)
        click.echo(f"Kubernetes API  {cluster.url}")
        click.echo(f"Prometheus      {cluster.prometheus_url}")
        click.echo(f"exporters       {cluster.url}/nodes/<node>/metrics   (http_sd: {cluster.url}/sd)")
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            click.echo("ended")


if __name__ == "__main__":
    main()
