"""take_snapshot(): ask each source once, note what failed, assemble. The only code that talks to a cluster."""
