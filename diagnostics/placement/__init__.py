"""Where pods could run: what a node admits, what is free on it, and how far apart a job was placed. Pure."""

from diagnostics.placement.demands import (
    POD_RULES,
    affinity_words,
    pod_rule_words,
    selector_words,
    toleration_words,
)
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
from diagnostics.placement.reach import NodeRooms, Reach
from diagnostics.placement.room import Room, Scope, fitted, give_back, is_fragmented, rooms, slots
from diagnostics.placement.scatter import Scatter, Span, possible_placement, scatter_of
from diagnostics.placement.surge import update_hangs

__all__ = [
    "CONDITION_TAINTS",
    "POD_RULES",
    "NodeRooms",
    "Reach",
    "Room",
    "Scatter",
    "Scope",
    "Span",
    "admits",
    "affinity_terms",
    "affinity_words",
    "fitted",
    "give_back",
    "is_cordoned_for",
    "is_fragmented",
    "labels_match",
    "node_terms_match",
    "pod_rule_words",
    "possible_placement",
    "rooms",
    "scatter_of",
    "selector_words",
    "selects",
    "slots",
    "toleration_words",
    "untolerated",
    "update_hangs",
    "wanted_labels",
]
