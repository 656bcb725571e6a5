"""Records for all processes of the driver that a commit was started.

Spark runs `commit` and `abort` in processes of their own, and calls `abort` too when `commit`
failed.  Files of a commit whose outcome is unknown must stay.  So a commit leaves a marker, a local
file, which it takes away only once it is certain that there is no snapshot.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

from paimon_core.io.temporary import folder_of_temporary_files

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitMarker:
    """The marker of one commit: `user` and `identifier` are those of its snapshot.

    `folder` holds it.  All processes must get the same one: each of them looks for a folder with
    free space, and finds another one if the disk has become full meanwhile.
    """

    user: str
    identifier: int
    folder: str = field(default_factory=folder_of_temporary_files)

    @property
    def _path(self) -> Path:
        name = hashlib.sha256(f"{self.user}/{self.identifier}".encode()).hexdigest()[:32]
        return Path(self.folder) / f"paimon-commit-{name}"

    def begin(self) -> None:
        """Record that the commit may exist from now on."""
        self._path.touch()

    def clear(self) -> None:
        """Remove the marker: the outcome of the commit is known.

        One that cannot be removed keeps files of later failures only, so no commit fails for it.
        """
        try:
            self._path.unlink(missing_ok=True)
        except OSError as e:
            log.warning("the marker of a commit that has ended stays: %s", e)

    @property
    def is_there(self) -> bool:
        """Whether a commit was started and its outcome is unknown; True if nobody can tell."""
        try:
            self._path.stat()
        except FileNotFoundError:
            return not Path(self.folder).is_dir()
        except OSError as e:
            log.warning("nobody can tell whether a commit was started: %s", e)
        return True
