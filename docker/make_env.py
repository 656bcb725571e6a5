"""Prints .env.example with a fresh secret for every line that wants one.

    python3 docker/make_env.py > docker/.env

Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import base64
import secrets
import sys
from pathlib import Path

EXAMPLE = Path(__file__).with_name(".env.example")


def filled(example: str) -> str:
    """The example with a secret behind each name that ends its line with "="."""
    lines = []
    for line in example.splitlines():
        name, equals, value = line.partition("=")
        if equals and not value and not name.startswith("#"):
            lines.append(f"{name}={_secret(name)}")
        elif not line.startswith("# Copy"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def _secret(name: str) -> str:
    if name.endswith("FERNET_KEY"):
        return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    # Letters and digits only: it also stands inside a database URL and a JSON text.
    return secrets.token_hex(10 if name.endswith("ACCESS_KEY") else 24)


if __name__ == "__main__":
    sys.stdout.write(filled(EXAMPLE.read_text(encoding="utf-8")))
