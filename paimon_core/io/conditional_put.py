"""Proves that a store refuses to create an object that exists, before a commit relies on it.

Some S3-compatible stores accept `If-None-Match: *` and ignore it.  On such a store every commit
appears to succeed, and the last one replaces the others.

The proof is the object `caretaker/conditional-put` below the table's root, which is never deleted.
The first commit of a process tries to create it with a conditional request and unique content:

- *refused*: the object exists, and the store honours the condition.  From the second process on,
  this one request is the whole proof. It tests the store as it is today: an object that merely says
  "proven" would be copied along with the bucket to another store.
- *created*: this is the first creation, or the store ignores the condition.  A second creation with
  different content decides: the store must refuse it, and the first content must remain.

Each process remembers the result per endpoint and bucket.
"""

from __future__ import annotations

from typing import Final, Protocol
from uuid import uuid4

from paimon_core.errors import UnsupportedFeature
from paimon_core.paths import CARETAKER_DIR, table_root_of

PROOF_NAME: Final = "conditional-put"
COMMIT_BY_RENAME: Final = "caretaker.commit-by-rename"
"""The file option that allows commits on a store that cannot prove it."""


class Store(Protocol):
    """The two requests that the proof needs."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Return whether the store reports that it created the object.

        Raises UnsupportedFeature if the store cannot do this.
        """

    def read_bytes(self, path: str) -> bytes:
        """The object's content."""


_proven: set[tuple[str, str]] = set()
_failed: set[tuple[str, str]] = set()


def prove_once(store: Store, place: tuple[str, str], path: str) -> None:
    """Prove that `path` can be created safely; `place` is the endpoint and the bucket.

    Raises UnsupportedFeature if the store replaces an existing object, and OSError if it does not
    answer.  In both cases nothing is created at `path`.
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


def is_proven(store: Store, place: tuple[str, str], path: str) -> bool:
    """Whether `prove_once` succeeds, for callers that can do without; False is remembered, too."""
    if place not in _failed:
        try:
            prove_once(store, place, path)
        except UnsupportedFeature:
            _failed.add(place)
    return place not in _failed


def refused(path: str, reason: str) -> UnsupportedFeature:
    """Return the error for a store on which commits may be lost; nothing was created at `path`."""
    return UnsupportedFeature(
        "commit on a store without conditional writes",
        f"cannot commit to {path}: {reason}, so concurrent commits could be lost; nothing was "
        "committed",
        file=path,
        next_step="use a store that honours If-None-Match on PUT (AWS S3, MinIO, Ceph, R2), upgrade "
        "this one, or check whether a gateway in front of it drops the header",
    )
