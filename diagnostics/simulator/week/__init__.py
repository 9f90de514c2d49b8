"""A working week that comes again and again: shifts, arrivals, idle nights, and faults that come, go and come back.

    calendar  ->  life | arrivals | episodes  ->  stage (the cluster at a moment)

Hours in here count from Monday midnight, UTC. Whatever comes takes the same GPUs each time.
"""
