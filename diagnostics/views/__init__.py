"""One module a page. A page reads what polls have stored and never asks a cluster."""
