"""Gangs: pods that work only together, found by group key, owner chain and what their commands say. Pure."""

from diagnostics.gangs.grouping import gangs_of
from diagnostics.gangs.launchers import Launch, launch_of

__all__ = ["Launch", "gangs_of", "launch_of"]
