"""Which engine does the work of a plan: this process for little work, Spark for much.

The bytes that the plan rewrites decide, not the size of the table.  Spark takes several seconds
before it reads the first row, and a small table takes less than a second in this process.  Plans
that rewrite no data change metadata alone and need no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from paimon_core.errors import InvalidArgument
from paimon_core.options import parse_memory_size
from paimon_maintenance.job.text import human_bytes

if TYPE_CHECKING:
    from paimon_maintenance.job.plan import Effect


class EngineName(StrEnum):
    """What `--engine` and the policy accept."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


DEFAULT_SPARK_THRESHOLD: Final = 256 * 1024**2
"""Bytes to rewrite from which a plan is for Spark."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine that does the work ("local" or "spark"), and the reason."""

    engine: str
    why: str

    @property
    def text(self) -> str:
        """The choice as text: "local: 12 MB to rewrite, below spark_threshold 256 MB"."""
        return f"{self.engine}: {self.why}"

    def made_on(self, engine: str) -> EngineChoice:
        """The choice in a process that has only this engine; the reason says so if it differs."""
        if engine == self.engine:
            return self
        where = "a Spark application" if engine == EngineName.SPARK else "a process without Spark"
        return EngineChoice(engine, f"{self.why}, but in {where}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRule:
    """The rule by which a run chooses its engine; `spark_threshold` is in bytes."""

    engine: EngineName = EngineName.AUTO
    spark_threshold: int = DEFAULT_SPARK_THRESHOLD

    @property
    def text(self) -> str:
        """The rule as text: "spark_threshold 256 MB", or "engine is spark"."""
        if self.engine is not EngineName.AUTO:
            return f"engine is {self.engine}"
        return f"spark_threshold {_size(self.spark_threshold)}"

    def choose(self, effect: Effect) -> EngineChoice:
        """The engine for a plan with this effect."""
        if self.engine is not EngineName.AUTO:
            return EngineChoice(str(self.engine), self.text)
        if not effect.rewritten_files:
            return EngineChoice(EngineName.LOCAL, "no data to rewrite")
        work = f"{_size(effect.rewritten_bytes)} to rewrite"
        if not self.is_for_spark(effect.rewritten_bytes):
            return EngineChoice(EngineName.LOCAL, f"{work}, below {self.text}")
        return EngineChoice(EngineName.SPARK, f"{work}, not below {self.text}")

    def is_for_spark(self, rewritten: int) -> bool:
        """Whether a plan that rewrites this number of bytes is for Spark."""
        if self.engine is not EngineName.AUTO:
            return self.engine is EngineName.SPARK
        return rewritten >= self.spark_threshold

    def to_json(self) -> dict[str, object]:
        """What differs from the defaults, under the policy's names; the threshold in bytes."""
        rule = {"engine": str(self.engine), "spark_threshold": self.spark_threshold}
        default = {"engine": EngineName.AUTO, "spark_threshold": DEFAULT_SPARK_THRESHOLD}
        return {name: value for name, value in rule.items() if value != default[name]}

    @classmethod
    def from_json(cls, parts: Mapping[str, object]) -> EngineRule:
        """The rule with these parts, under the policy's names; None: the default.

        The threshold is a number of bytes or a text such as "256 mb".  InvalidArgument for a part
        that is unknown or cannot be read.
        """
        rule = cls()
        for name, value in parts.items():
            if value is None:
                continue
            if name == "engine":
                rule = replace(rule, engine=engine_named(str(value)))
            elif name == "spark_threshold":
                rule = replace(rule, spark_threshold=threshold_of(str(value)))
            else:
                raise InvalidArgument(
                    f"an engine rule has no part {name!r}",
                    next_step="use engine or spark_threshold",
                )
        return rule


def engine_named(text: str) -> EngineName:
    """The engine with this name; InvalidArgument if there is none."""
    try:
        return EngineName(text.strip().lower())
    except ValueError:
        raise InvalidArgument(
            f"there is no engine {text!r} (known: {', '.join(EngineName)})"
        ) from None


def threshold_of(text: str) -> int:
    """The bytes of a spark_threshold; InvalidArgument if the text is not a size."""
    try:
        return parse_memory_size(text)
    except InvalidArgument as e:
        raise InvalidArgument(f"spark_threshold: {e.message}") from e


def _size(size: int) -> str:
    return human_bytes(size).replace(".0 ", " ")
