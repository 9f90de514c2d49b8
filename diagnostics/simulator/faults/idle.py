"""GPUs that are held and do nothing."""

from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import period, running
from diagnostics.simulator.templates import notebook, server
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.world import World

MODEL = "mistralai/Mistral-7B-Instruct-v0.3"


def _loaded(world: World, *, activity: str = "loaded-idle", exempt: bool = False) -> None:
    """A model server that is up since the morning; who calls it, decides."""
    annotations = {}
    if exempt:
        annotations = {"gpuhealth.io/exempt": "idle-gpu", "gpuhealth.io/exempt-reason": "warm standby"}
    name = "summarizer-standby" if exempt else "summarizer"
    deployment = world.add(
        "Deployment",
        f"serving/{name}",
        server(MODEL, 1, pool="", annotations=annotations),
        age=5 * HOUR,
        activity=activity,
        annotations=annotations,
        service_port=8000,
    )
    world.run(deployment, [world.pick_node(1)])
    if activity == "loaded-idle" and not exempt:
        world.expect("idle-gpu", deployment, "a loaded model that nobody calls")


def _notebook(world: World, *, activity: str) -> None:
    book = world.add("StatefulSet", "data-science/notebook-dana", notebook(), age=7 * HOUR, activity=activity)
    world.run(book, ["gpu-09"])
    if activity == "empty":
        world.expect("idle-gpu", book, "held since the morning, nothing was ever loaded")


def _young(world: World) -> None:
    """A server is still loading its model; every 25 minutes a new one comes, so that it stays young."""
    start, turn = period(world.now, world.epoch, 25 * MINUTE, 10 * MINUTE)
    pod = world.add(
        "Pod",
        f"serving/trial-server-{turn}",
        server(MODEL, 1, pool=""),
        created=start,
        activity="loading",
    )
    world.place(pod, world.pick_node(1), 0, running(start + seconds(4)))


FAULTS = (
    Fault(
        "idle-loaded",
        "idle-gpu",
        "warm-standby",
        "Deployment",
        "summarizer",
        "memory resident, nobody calls",
        _loaded,
        namespace="serving",
    ),
    Fault(
        "idle-empty",
        "idle-gpu",
        "active-notebook",
        "StatefulSet",
        "notebook-dana",
        "held, nothing loaded",
        partial(_notebook, activity="empty"),
        namespace="data-science",
    ),
)
TWINS = (
    Twin("warm-standby", "its owner has said that it stands by", partial(_loaded, exempt=True)),
    Twin("called-server", "it is called", partial(_loaded, activity="inference")),
    Twin("active-notebook", "a cell ran ten minutes ago", partial(_notebook, activity="notebook")),
    Twin("young-server", "it is ten minutes old and loads", _young),
)
