"""Small loopback servers that answer what a test says, so that the real clients are exercised."""
