"""GPU Health: from a cluster's answers to findings that are kept.

    collect  ->  Snapshot  ->  rules  ->  findings (+ guided fix)  ->  incidents  ->  views
    (I/O)        (values)      (pure)     (values)                     (ORM)          (HTMX)

`pipeline.observe()` walks this line once per poll: read it first.
"""
