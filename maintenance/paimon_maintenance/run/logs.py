"""The lines of the log: text for people, or a JSON object each (`CARETAKER_LOG_FORMAT=json`)."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Final

from paimon_core.errors import InvalidArgument

VARIABLE: Final = "CARETAKER_LOG_FORMAT"
FIELDS: Final = ("table", "job", "run_id", "phase", "snapshots", "status")
"""What a record may hold beside its message (`extra` of a call of a logger)."""
LOG_CREDENTIALS: Final = (
    "adlfs",
    "aiobotocore",
    "aiohttp",
    "azure",
    "boto3",
    "botocore",
    "fsspec",
    "gcsfs",
    "google",
    "httpcore",
    "httpx",
    "ossfs",
    "oss2",
    "s3fs",
    "thrift",
    "urllib3",
)
"""Clients of stores and catalogs: at DEBUG they log headers with keys and tokens."""
_TEXT: Final = "text"
_JSON: Final = "json"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC, ISO 8601), level, logger, message, `FIELDS`, exception."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: vars(record)[name] for name in FIELDS if name in vars(record)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logging(level: int, *, text_format: str) -> None:
    """Log to standard error from `level` on; `text_format` is that of lines that are not JSON.

    Clients of stores log from INFO on, whatever the level.  Does nothing if the process has a log
    already.  InvalidArgument for an unknown format.
    """
    wanted = os.environ.get(VARIABLE) or _TEXT
    if wanted not in (_TEXT, _JSON):
        raise InvalidArgument(
            f"{VARIABLE} is {wanted!r}", next_step=f"set it to {_TEXT!r} or {_JSON!r}"
        )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if wanted == _JSON else logging.Formatter(text_format))
    if logging.getLogger().handlers:
        return
    logging.basicConfig(level=level, handlers=[handler])
    for name in LOG_CREDENTIALS:
        logging.getLogger(name).setLevel(max(level, logging.INFO))
