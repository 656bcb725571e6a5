"""Credentials of the store from an Airflow connection, and errors that mean they were refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Connection

# Error codes of S3 and compatible stores, and errors of botocore before any request.  Jobs raise
# StorageAccessDenied for these; the texts matter where Spark only returns a text.
_REFUSED = re.compile(
    r"\b(AccessDenied|AccessDeniedException|AccountProblem|AllAccessDisabled|ExpiredToken"
    r"|ExpiredTokenException|InvalidAccessKeyId|InvalidClientTokenId|InvalidSecurity|InvalidToken"
    r"|NotSignedUp|SignatureDoesNotMatch|TokenRefreshRequired|UnauthorizedAccess"
    r"|UnrecognizedClientException|NoCredentialsError|PartialCredentialsError"
    r"|CredentialRetrievalError|NoAuthTokenError|TokenRetrievalError|UnauthorizedSSOTokenError"
    r"|SSOTokenLoadError|StorageAccessDenied|PermissionError)\b"
    r"|Unable to locate credentials|Partial credentials found"
)
# Extras of a connection, and the options of the store that they set.
_EXTRA_NAMES = {
    "aws_session_token": "s3.session-token",
    "endpoint_url": "s3.endpoint",
    "region_name": "s3.region",
}


def are_refused(text: str) -> bool:
    """Whether an error says that the store refused the credentials, or that they are missing.

    A retry fails in the same way until they change.
    """
    return _REFUSED.search(text) is not None


def storage_of_connection(connection: str | None) -> dict[str, str]:
    """The options of the store in an Airflow connection; empty without a connection.

    Login and password are S3's access key and secret key; extras may hold `aws_session_token`,
    `endpoint_url`, `region_name`, and any option under its own name ("fsspec.token").  A task reads
    it when it runs; nothing stores it.  AirflowNotFoundException if there is no such connection.
    """
    if not connection:
        return {}
    from airflow.sdk import BaseHook  # noqa: PLC0415 - only when a task runs

    return options_of_connection(BaseHook.get_connection(connection))


def options_of_connection(found: Connection) -> dict[str, str]:
    """The options of the store that this connection holds (see `storage_of_connection`)."""
    options = {
        _EXTRA_NAMES.get(name, name): str(value)
        for name, value in found.extra_dejson.items()
        if name in _EXTRA_NAMES or "." in name
    }
    if found.login:
        options["s3.access-key"] = found.login
    if found.password:
        options["s3.secret-key"] = found.password
    return options
