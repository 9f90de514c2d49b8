"""Thirty days of a cluster's life: who runs what where and when, and what befalls the hardware.

    people + upheaval  ->  plan (once a config)  ->  stage (the cluster at a moment) | truth (what it amounts to)

Times in here are whole seconds since the month's first midnight, UTC.
"""
