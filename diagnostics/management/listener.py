"""The port that the web server listens at, opened here and handed over, so that it cannot be taken meanwhile."""

import errno
import socket


class NotFree(Exception):
    """The address cannot be listened at; the message says why and what to do."""


def listener_at(host: str, port: int) -> socket.socket:
    """An open socket; port 0 takes any free one. Raises NotFree."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            msg = f"port {port} on {host} is taken by another program; choose one with --port"
        else:
            msg = f"cannot listen at {host}, port {port}: {getattr(error, 'strerror', None) or error}"
        raise NotFree(msg) from None


def url_of(listener: socket.socket) -> str:
    """How a browser on this machine reaches it."""
    host, port = listener.getsockname()[:2]
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{reachable}:{port}/"
