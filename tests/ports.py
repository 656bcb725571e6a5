"""A free port of the loopback for a server that a test starts a moment later."""

from __future__ import annotations

import random
import socket

# Below what the kernel gives to outgoing connections: another test's client cannot take the port
# between our look and the server's start.
PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A port that nobody listens on; OSError if there is none."""
    choice = random.SystemRandom()  # tests that set the seed must not meet here
    for _ in range(1000):
        port = choice.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port")
