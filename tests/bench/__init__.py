"""Measurements, not tests: `make bench` prints them as ratios within one run, with the limits that they must keep."""
