"""A TCP proxy that passes requests on and loses the reply to one of them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def dropped_reply(
    port: int, marker: bytes, *, number: int = 1
) -> Iterator[tuple[int, list[bytes]]]:
    """A proxy of a loopback port, and the requests with `marker`.

    All are passed on; the reply to the one of this number and its connection are lost.
    """
    seen: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", port))
        lose = threading.Event()

        def back() -> None:
            with suppress(OSError):
                while data := server.recv(65536):
                    if lose.is_set():
                        break
                    client.sendall(data)
            for s in (client, server):
                with suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=back, daemon=True).start()
        with suppress(OSError):
            while data := client.recv(65536):
                if marker in data:
                    seen.append(marker)
                    if len(seen) == number:
                        lose.set()
                server.sendall(data)
        with suppress(OSError):  # a server has a thread for each connection
            server.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], seen
    finally:
        listener.close()
