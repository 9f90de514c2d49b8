"""Commands, and what `up` is made of: the children that it starts, and the simulated cluster."""
