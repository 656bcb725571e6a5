"""Proves that a store refuses to create an object that is there, before a commit relies on it.

Some S3-compatible stores accept `If-None-Match: *` and ignore it.  There every commit is told that
it won, and the last one replaces the others.

The proof is an object of our own, `caretaker/conditional-put` below the table's root, which stays.
Whoever commits first in a process creates it, conditionally, with content of its own:

- *refused*: the object is there, and the store honours the condition.  One request is the whole
  proof from the second process on.  It is about the store as it is today: an object that merely
  says "proven" would come along when a bucket is copied to another store.
- *created*: this is the first creation, or the store ignores the condition.  A second creation, with
  other content, tells: it must be refused, and the first content must be there.

What a process has proven, it remembers for the endpoint and the bucket.
"""

from __future__ import annotations

from typing import Final, Protocol
from uuid import uuid4

from paimon_core.errors import UnsupportedFeature
from paimon_core.paths import CARETAKER_DIR, table_root_of

PROOF_NAME: Final = "conditional-put"


class Store(Protocol):
    """The two requests that the proof is made of."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Whether the store says that it made the object; UnsupportedFeature if it cannot."""

    def read_bytes(self, path: str) -> bytes:
        """The object's content."""


_proven: set[tuple[str, str]] = set()


def prove_once(store: Store, place: tuple[str, str], path: str) -> None:
    """Prove that `path` can be created safely; `place` is the endpoint and the bucket.

    UnsupportedFeature if the store creates what is there.  OSError if it does not answer; nothing
    was created at `path` then.
    """
    if place in _proven:
        return
    proof = f"{table_root_of(path)}/{CARETAKER_DIR}/{PROOF_NAME}"
    first, second = str(uuid4()).encode(), str(uuid4()).encode()
    if store.put_if_absent(proof, first) and (
        store.put_if_absent(proof, second) or store.read_bytes(proof) != first
    ):
        raise refused(
            path, f"the store created {proof} twice, though the second request forbade it"
        )
    _proven.add(place)


def refused(path: str, reason: str) -> UnsupportedFeature:
    """The error for a store on which commits may be lost; nothing was created at `path`."""
    return UnsupportedFeature(
        "commit on a store without conditional writes",
        f"cannot commit to {path}: {reason}, so concurrent commits could be lost; nothing was "
        "committed",
        file=path,
        next_step="use a store that honours If-None-Match on PUT (AWS S3, MinIO, Ceph, R2), upgrade "
        "this one, or check whether a gateway in front of it drops the header",
    )
