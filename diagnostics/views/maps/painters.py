"""The ways to colour the map."""

from diagnostics.picture import Devices
from diagnostics.views.maps.asked import Asked
from diagnostics.views.maps.by_finding import by_finding
from diagnostics.views.maps.by_measure import MEASURES, by_measure
from diagnostics.views.maps.by_owner import by_owner
from diagnostics.views.maps.by_state import by_state
from diagnostics.views.maps.paint import Painter
from diagnostics.views.maps.touching import Touched


def painter_of(asked: Asked, devices: Devices, touched: Touched, path: str) -> Painter:
    """For the colour that is asked for. `path`: address of the map."""
    if asked.by in MEASURES:
        return by_measure(MEASURES[asked.by])
    if asked.by == "owner":
        return by_owner(asked, devices, path)
    return by_finding(touched) if asked.by == "finding" else by_state(asked, path)
