"""A small Prometheus over the simulated cluster: its query API, and of PromQL what dashboards use.

    samples (what scrapes would have stored)  ->  evaluation <- syntax  ->  api (HTTP)

Every value follows from the time alone, so that any span of the past can be asked for without having been stored.
"""
