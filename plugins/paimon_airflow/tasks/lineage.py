"""OpenLineage events of tasks that change tables, if Airflow's OpenLineage provider is installed.

The provider calls `get_openlineage_facets_on_complete` after an operator has ended.  Without the
provider, none of its modules are imported.  A maintained table is an input and an output: the input
has what the run read, the output what it wrote, with the snapshot as version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from paimon_airflow.tasks.results import TableResult

_CATALOG: Final = "catalog:"
FACET: Final = "caretaker"
"""The name of the facet with the figures of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTable:
    """A table that a task changed, as a dataset.

    Sizes cover the files of the run, None if unknown.
    """

    namespace: str
    name: str
    table: str
    job: str
    snapshot: int | None
    files: tuple[int, int] | None
    bytes: tuple[int, int] | None


def changed_tables(
    results: Iterable[TableResult], *, job: str, warehouse: str
) -> list[ChangedTable]:
    """The tables that got a new snapshot or lost files, in the order of the results."""
    found = []
    for result in results:
        if result.outcome != "done":
            continue
        namespace, name = dataset_of(warehouse, result.table)
        found.append(
            ChangedTable(
                namespace=namespace,
                name=name,
                table=result.table,
                job=job,
                snapshot=result.snapshot,
                files=_pair(result.figures.get("files")),
                bytes=_pair(result.figures.get("bytes")),
            )
        )
    return found


def dataset_of(warehouse: str, table: str) -> tuple[str, str]:
    """Namespace and name of a table as OpenLineage names files: store, and folder of the table.

    The folder of a table in a catalog is not known here, so its name is DATABASE.TABLE.
    """
    if warehouse.startswith(_CATALOG):
        return f"paimon://{warehouse.removeprefix(_CATALOG)}", table
    database, _, name = table.partition(".")
    url = urlsplit(warehouse)
    folder = f"{url.path.rstrip('/')}/{database}.db/{name}"
    if url.scheme in ("", "file"):
        return "file", folder
    return f"{url.scheme}://{url.netloc}", folder.lstrip("/")


def _pair(figures: Sequence[int] | None) -> tuple[int, int] | None:
    return None if figures is None else (figures[0], figures[1])


class WithLineage:
    """An operator that says which tables it changed; `changed` is set when it has run."""

    changed: Sequence[ChangedTable] = ()

    def get_openlineage_facets_on_complete(self, _: object) -> Any:
        """The datasets for the OpenLineage provider, also after a failure of another table."""
        return operator_lineage(self.changed)


def operator_lineage(changed: Sequence[ChangedTable]) -> Any:
    """The OperatorLineage of the provider; ImportError where it is not installed."""
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415 - optional
    from openlineage.client.event_v2 import InputDataset, OutputDataset  # noqa: PLC0415 - as above
    from openlineage.client.facet_v2 import (  # noqa: PLC0415 - as above
        dataset_version_dataset,
        input_statistics_input_dataset,
        output_statistics_output_dataset,
        symlinks_dataset,
    )

    inputs, outputs = [], []
    for one in changed:
        common = {
            "symlinks": symlinks_dataset.SymlinksDatasetFacet(
                identifiers=[
                    symlinks_dataset.Identifier(
                        namespace=one.namespace, name=one.table, type="TABLE"
                    )
                ]
            )
        }
        read = _statistics(one, 0, input_statistics_input_dataset.InputStatisticsInputDatasetFacet)
        wrote = _statistics(
            one, 1, output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        )
        version = {}
        if one.snapshot is not None:
            version["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
                datasetVersion=str(one.snapshot)
            )
        inputs.append(
            InputDataset(
                namespace=one.namespace,
                name=one.name,
                facets=dict(common),
                inputFacets={} if read is None else {"inputStatistics": read},
            )
        )
        outputs.append(
            OutputDataset(
                namespace=one.namespace,
                name=one.name,
                facets={**common, **version, FACET: _facet(one)},
                outputFacets={} if wrote is None else {"outputStatistics": wrote},
            )
        )
    return OperatorLineage(inputs=inputs, outputs=outputs)


def _statistics(one: ChangedTable, which: int, facet: Any) -> Any:
    if one.files is None and one.bytes is None:
        return None
    return facet(
        size=None if one.bytes is None else one.bytes[which],
        fileCount=None if one.files is None else one.files[which],
    )


def _facet(one: ChangedTable) -> Any:
    """The figures of the run as a facet of its own."""
    from attrs import define  # noqa: PLC0415 - a dependency of the provider
    from openlineage.client.facet_v2 import DatasetFacet  # noqa: PLC0415 - optional

    @define
    class MaintenanceDatasetFacet(DatasetFacet):
        job: str
        snapshot: int | None
        filesBefore: int | None  # noqa: N815 - OpenLineage writes names like this
        filesAfter: int | None  # noqa: N815
        bytesBefore: int | None  # noqa: N815
        bytesAfter: int | None  # noqa: N815

    files, size = one.files or (None, None), one.bytes or (None, None)
    return MaintenanceDatasetFacet(
        job=one.job,
        snapshot=one.snapshot,
        filesBefore=files[0],
        filesAfter=files[1],
        bytesBefore=size[0],
        bytesAfter=size[1],
    )
