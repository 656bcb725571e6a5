"""Branches (Java: `utils/FileSystemBranchManager`): `branch/branch-NAME/` with its own metadata.

A branch shares data files, manifests and indexes with the main branch, so whoever deletes files
looks at all branches (JAVA_RULES I7).
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_core.errors import InvalidArgument
from paimon_core.io.file_io import FileIO
from paimon_core.paths import BRANCH_PREFIX, MAIN_BRANCH, TablePaths


@dataclass(frozen=True, slots=True)
class BranchStore:
    """The branches beside main."""

    io: FileIO
    paths: TablePaths
    table: str

    def list(self) -> list[str]:
        """The names of all branches but main, sorted."""
        return sorted(
            f.name[len(BRANCH_PREFIX) :]
            for f in self.io.list_dir(self.paths.branches_dir)
            if f.is_dir and f.name.startswith(BRANCH_PREFIX)
        )

    def exists(self, name: str) -> bool:
        """Whether there is such a branch; main always is."""
        return name == MAIN_BRANCH or self.io.exists(self.paths.branch_dir(name))


def check_branch_name(name: str) -> None:
    """Nothing, or InvalidArgument for a name that Java refuses: main, blank, all digits."""
    if name == MAIN_BRANCH:
        raise InvalidArgument(f"{MAIN_BRANCH} is the default branch")
    if not name.strip() or name.isdigit() or "/" in name:
        raise InvalidArgument(
            f"not a branch name: {name!r} (it must not be blank, all digits or hold a slash)"
        )
