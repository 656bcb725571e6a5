"""Commits that a REST catalog makes (Java: `CatalogSnapshotCommit`, `SnapshotLoaderImpl`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paimon_core.catalog.rest.payloads import commit_json, object_name, snapshot_of
from paimon_core.commit.same_table import created_again, dropped
from paimon_core.errors import AlreadyExists, StorageError
from paimon_core.paths import MAIN_BRANCH
from paimon_core.remote.rest_client import ResourceNotFound, RestClient, reading
from paimon_core.snapshot.snapshot import Snapshot
from paimon_core.snapshot.snapshot_commit import CommitAttempt
from paimon_core.table.open import split_identifier

_SNAPSHOT = "SNAPSHOT"


@dataclass(frozen=True, slots=True)
class RestSnapshotCommit:
    """`SnapshotCommit` of one table: the catalog says what is newest, and makes each commit.

    `table_id` is the id that the catalog gave the table: a table that was dropped and created again
    under its name is not committed to.
    """

    client: RestClient
    identifier: str
    table_id: str

    @property
    def owner(self) -> str:
        return f"the REST catalog at {self.client.uri}"

    @property
    def accepts_partition_statistics(self) -> bool:
        return True

    def latest(self, branch: str) -> Snapshot | None:
        path = self._path(branch, "snapshot")
        try:
            answer = self.client.get(path)
        except ResourceNotFound as e:
            if e.resource_type == _SNAPSHOT:
                return None
            e.table = self.identifier
            raise
        # The answer holds the snapshot together with counts of the whole table.
        found = answer.get("snapshot")
        if found is None:
            return None
        with reading(path):
            return snapshot_of(found["snapshot"], table=self.identifier)

    def check_same_table(self) -> None:
        try:
            found = self.client.get(self._path(MAIN_BRANCH))
        except ResourceNotFound as e:
            raise dropped(self.identifier) from e
        if str(found.get("id")) != self.table_id:
            raise created_again(self.identifier)

    def commit(
        self,
        attempt: CommitAttempt,
        create_file: Callable[[], bool],  # noqa: ARG002 - the catalog creates it
    ) -> bool:
        path = self._path(attempt.branch, "commit")
        body = commit_json(attempt, self.table_id)
        try:
            answer = self.client.post(path, body)
        except ResourceNotFound:
            self.check_same_table()
            raise
        except AlreadyExists as e:
            # Read the snapshot to find out whose it is.
            raise StorageError(e.message, file=path) from e
        success = answer.get("success")
        if not isinstance(success, bool):
            raise StorageError(
                f"the REST catalog did not say whether snapshot {attempt.snapshot.id} of table "
                f"{self.identifier} was committed",
                file=path,
            )
        return success

    def _path(self, branch: str, *rest: str) -> str:
        database, table = split_identifier(self.identifier)
        name = object_name(table, branch)
        return self.client.path("databases", database, "tables", name, *rest)
