"""Collects findings and counts during a verification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from paimon_core.errors import CorruptTable, PaimonError
from paimon_core.file_store_table import FileStoreTable
from paimon_maintenance.verify.findings import Finding, Problem, Repair, Severity
from paimon_maintenance.verify.references import Reference, RefKind


@dataclass(slots=True)
class Collector:
    """The findings, the number of checked items, and the references that findings concern."""

    findings: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    _references: dict[str, Reference] = field(default_factory=dict)

    def begin(self, reference: Reference) -> None:
        """Register a reference before checking it."""
        self._references[reference.label] = reference
        self.checked[f"{reference.kind}s"] += 1

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings."""
        self.findings += findings

    def error(
        self,
        reference: Reference,
        problem: Problem,
        message: str,
        *,
        file: str | None = None,
        partition: str | None = None,
        bucket: int | None = None,
    ) -> None:
        """Add an error about a reference or a file that it needs."""
        self.findings.append(
            Finding(
                problem=problem,
                severity=Severity.ERROR,
                message=message,
                reference=reference.label,
                branch=reference.table.branch,
                snapshot=reference.snapshot.id,
                partition=partition,
                bucket=bucket,
                file=file,
                repair=_repair_of(reference, problem),
            )
        )

    def note(self, reference: Reference, problem: Problem, message: str, *, file: str) -> None:
        """Add an informational finding about a reference."""
        self.findings.append(
            Finding(
                problem=problem,
                severity=Severity.INFO,
                message=message,
                reference=reference.label,
                branch=reference.table.branch,
                snapshot=reference.snapshot.id,
                file=file,
            )
        )

    def unreadable_reference(self, branch: FileStoreTable, error: CorruptTable) -> None:
        """Add an error for an unreadable snapshot, tag or changelog file."""
        self.findings.append(
            Finding(
                problem=Problem.UNREADABLE,
                severity=Severity.ERROR,
                message=error.message,
                branch=branch.branch,
                snapshot=error.snapshot,
                file=error.file,
                repair=Repair.DELETE_REFERENCE,
            )
        )

    def broken_branch(self, branch: str, error: PaimonError) -> None:
        """Add an error for a branch with a missing or unreadable schema."""
        self.findings.append(
            Finding(
                problem=Problem.MISSING_SCHEMA,
                severity=Severity.ERROR,
                message=f"{error.message}; jobs that delete files fail until the branch is repaired "
                f"or deleted (delete_branch)",
                branch=branch,
                file=error.file,
            )
        )

    def unfinished_branch(self, branch: FileStoreTable, tag: str) -> None:
        """Add a finding for an interrupted branch creation; `tag` is "" for an empty branch."""
        start = f"at tag {tag!r}" if tag else "empty"
        self.findings.append(
            Finding(
                problem=Problem.UNFINISHED_BRANCH,
                severity=Severity.WARNING,
                message=f"the creation of branch {branch.branch} ({start}) was interrupted: run "
                "create_branch again with the same arguments, or delete_branch",
                branch=branch.branch,
            )
        )

    def final(self) -> list[Finding]:
        """The findings, most severe first, without those about references that have expired."""
        gone = {
            label
            for label in {f.reference for f in self.findings if f.severity is Severity.ERROR}
            if label in self._references and not self._references[label].is_alive()
        }
        left = [
            f for f in self.findings if f.severity is not Severity.ERROR or f.reference not in gone
        ]
        order = list(Severity)
        return sorted(left, key=lambda f: (order.index(f.severity), f.snapshot or 0, f.message))


def _repair_of(reference: Reference, problem: Problem) -> Repair:
    """The possible repair of a broken reference: remove the file, delete it, or roll back."""
    if problem is Problem.MISSING_DATA_FILE:
        return Repair.REMOVE_UNEXISTING_FILES
    return Repair.ROLL_BACK if reference.kind is RefKind.SNAPSHOT else Repair.DELETE_REFERENCE
