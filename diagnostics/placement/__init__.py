"""Where pods could run: what a node admits, what is free on it, and how far apart a job was placed. Pure."""

from diagnostics.placement.matching import (
    CONDITION_TAINTS,
    admits,
    affinity_terms,
    is_cordoned_for,
    labels_match,
    node_terms_match,
    selects,
    untolerated,
    wanted_labels,
)
from diagnostics.placement.room import Room, Scope, fitted, give_back, is_fragmented, rooms, slots
from diagnostics.placement.scatter import Scatter, Span, possible_placement, scatter_of
from diagnostics.placement.surge import update_hangs

__all__ = [
    "CONDITION_TAINTS",
    "Room",
    "Scatter",
    "Scope",
    "Span",
    "admits",
    "affinity_terms",
    "fitted",
    "give_back",
    "is_cordoned_for",
    "is_fragmented",
    "labels_match",
    "node_terms_match",
    "possible_placement",
    "rooms",
    "scatter_of",
    "selects",
    "slots",
    "untolerated",
    "update_hangs",
    "wanted_labels",
]
