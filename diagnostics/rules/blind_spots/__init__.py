"""GPU9xx: what cannot be seen, and the line that cures it. Not findings: coverage."""
