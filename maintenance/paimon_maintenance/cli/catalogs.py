"""`caretaker catalogs`: the defined catalogs."""

from __future__ import annotations

import argparse

from paimon_maintenance.cli.output import Output
from paimon_maintenance.job.exit_codes import ExitCode
from paimon_maintenance.storage.catalogs import defined_catalogs
from paimon_maintenance.storage.options import secret_keys

_SHOWN = ("uri", "warehouse")


def run(args: argparse.Namespace, output: Output) -> ExitCode:  # noqa: ARG001 - as every command
    """Print each catalog's options without secrets; NOTHING_TO_DO if none is defined."""
    found = {
        name: {k: v for k, v in options.items() if k not in secret_keys(options)}
        for name, options in sorted(defined_catalogs().items())
    }
    code = ExitCode.SUCCESS if found else ExitCode.NOTHING_TO_DO
    lines = [_line(name, options) for name, options in found.items()]
    output.result(
        {"exit_code": int(code), "catalogs": [{"name": n, "options": o} for n, o in found.items()]},
        lines or ["no catalog is defined"],
    )
    return code


def _line(name: str, options: dict[str, str]) -> str:
    kind = options.get("metastore", "filesystem")
    places = "  ".join(options[key] for key in _SHOWN if key in options)
    return f"{name}  {kind}  {places}"
