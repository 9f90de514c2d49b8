"""A made-up GPU cluster as a function of time, behind the wire formats of a real one.

    config  ->  world  ->  manifests | exporter | logs  ->  kube | server
    (what)      (state)    (what it looks like)             (HTTP)

`world.build(config, now)` is pure: the same input gives the same cluster to the byte. A fault alters the
world's state and nothing else; its healthy twin differs in one decisive fact.
"""
