"""Limits on what one run may do without an explicit override.

A guard never changes a plan: it lets it pass, or raises GuardTripped with figures and the flag
that overrides it.  What a compaction rewrites is not lost, so shares count only for deletions.
"""

from __future__ import annotations

from dataclasses import dataclass

from maintenance.plan import Plan, human_bytes
from paimon_core.errors import GuardTripped

DEFAULT_MAX_DELETED_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """What a run may do at most.

    `max_deleted_share` is a share (0 to 1) of the table's files, and of its bytes, that may be
    deleted.  `max_rewrite_bytes` bounds what may be read and written again; None: no bound.
    """

    max_deleted_share: float = DEFAULT_MAX_DELETED_SHARE
    max_rewrite_bytes: int | None = None

    def check(self, plan: Plan, *, force: bool) -> None:
        """Raise GuardTripped if the plan does too much and `force` is not set."""
        tripped = self.reasons(plan)
        if tripped and not force:
            raise GuardTripped("; ".join(tripped), table=plan.table)

    def reasons(self, plan: Plan) -> list[str]:
        """Why the plan is too much, a sentence a guard; empty if it is not."""
        effect = plan.effect
        found = []
        for what, part, whole in (
            ("files", effect.deleted_files, effect.table_files),
            ("bytes", effect.deleted_bytes, effect.table_bytes),
        ):
            if whole and part / whole > self.max_deleted_share:
                found.append(
                    f"the plan deletes {part:,} of {whole:,} {what} ({part / whole:.0%}), "
                    f"more than the allowed {self.max_deleted_share:.0%}"
                )
        limit = self.max_rewrite_bytes
        if limit is not None and effect.rewritten_bytes > limit:
            found.append(
                f"the plan rewrites {human_bytes(effect.rewritten_bytes)}, more than the allowed "
                f"{human_bytes(limit)} (--max-rewrite)"
            )
        return found
