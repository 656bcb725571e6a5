"""Object store options: which ones are secret, and where secrets come from.

Configuration files are reviewed, copied and serialized into DAGs, and arguments are visible in the
process list.  So neither may contain secrets.  Secrets come from the environment, an Airflow
connection or the store itself (instance roles, workload identity).

The DAG processor uses this module, so it imports nothing heavy.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Final

from paimon_core.errors import InvalidArgument

STORAGE_VARIABLE: Final = "CARETAKER_STORAGE"
"""An environment variable with options as one JSON object; it may contain secrets."""

HOW_TO_PASS_SECRETS: Final = (
    "pass secrets in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or any options "
    f"as JSON in {STORAGE_VARIABLE}) or in an Airflow connection (`storage_connection` in "
    "caretaker.toml), or use an instance role"
)

_SECRET: Final = re.compile(
    r"secret|passw|passphrase|token|credential|signature|authorization"
    r"|(access|account|private|api|encryption|storage)[-_.]?key|connection[-_.]?string"
    r"|(^|[-_.])(sas|key|pwd)$",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(
    # The name of a file, a class or a flag, not the secret itself.
    r"(provider|providers|path|file|enabled|class|type|endpoint|location)$"
    # Kubernetes secrets that Spark mounts or exposes as environment variables.
    r"|^spark\.kubernetes\.(driver|executor)\.(secrets|secretKeyRef)\.",
    re.IGNORECASE,
)
_LOGIN_IN_URL: Final = re.compile(r"://[^/@\s]*:[^/@\s]*@")
_HIDDEN: Final = "***"


def secret_keys(options: Mapping[str, object]) -> list[str]:
    """The sorted keys of options with a secret name, or with a URL that contains a password."""
    return sorted(
        key
        for key, value in options.items()
        if (_SECRET.search(key) and not _REFERENCE.search(key)) or _LOGIN_IN_URL.search(str(value))
    )


def hide_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with a mark in place of each secret."""
    secret = set(secret_keys(options))
    return {k: _HIDDEN if k in secret else v for k, v in options.items()}


def refuse_secrets(
    options: Mapping[str, object], where: str, *, next_step: str = HOW_TO_PASS_SECRETS
) -> None:
    """InvalidArgument if an option is secret; `where` names its location for the message."""
    found = secret_keys(options)
    if found:
        raise InvalidArgument(
            f"{where}: {', '.join(found)} must not be set here, because other users can read it",
            next_step=next_step,
        )


def options_of_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The options in CARETAKER_STORAGE.

    InvalidArgument, without the value, if it is not a JSON object.
    """
    text = environ.get(STORAGE_VARIABLE)
    if not text:
        return {}
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict):
        # The value may contain secrets: do not show it or the message of the parser.
        raise InvalidArgument(
            f"the environment variable {STORAGE_VARIABLE} is not a JSON object",
            next_step=f"""set it to options, for example {STORAGE_VARIABLE}='{{"s3.region": "..."}}'""",
        ) from None
    return {str(key): str(value) for key, value in options.items()}
