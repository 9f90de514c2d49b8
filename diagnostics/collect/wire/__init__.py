"""The Kubernetes API's own shapes, cut down to the fields that are read, and their way into the snapshot.

Structs here mirror the wire: every field that an API server may leave out or send as null is optional, and what
makes an object an object (its name, its spec, its status) is not.
"""
