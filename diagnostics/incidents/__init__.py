"""The life of incidents: what polls make of them, and what people do about them.

record        a poll: incidents open, stay, close and come back
follow_up     people: acknowledge, assign, comment, check steps off
verification  whether the last polls still see it
outcomes      how often checked-off fixes held
cost          GPU-hours and money since it opened
"""

from diagnostics.incidents.recording import Recorded, record

__all__ = ["Recorded", "record"]
