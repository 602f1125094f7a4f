"""Sealed: small JSON files that tell when they were damaged. The last member, ``check``, is the BLAKE3 of the rest.

The seal guards against damage, not against malice: whoever can write the file can seal it.
"""

from __future__ import annotations

import json
from typing import Any

from dsbuild.digest import Domain, of_bytes
from dsbuild.errors import CorruptError

_OPEN = b',"check":"'
_CLOSE = b'"}\n'
_TAIL = len(_OPEN) + 64 + len(_CLOSE)


def seal(value: dict[str, Any]) -> bytes:
    """``value`` (not empty; JSON values, no NaN) as one line of JSON with its check. Raises ``ValueError``."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    body = text.encode("utf-8")
    return body[:-1] + _OPEN + of_bytes(Domain.FILE, body).hex.encode() + _CLOSE


def unseal(data: bytes, path: str) -> dict[str, Any]:
    """The value of sealed bytes. Raises ``CorruptError`` naming ``path``."""
    body = data[:-_TAIL] + b"}"
    if data[-_TAIL:] != _OPEN + of_bytes(Domain.FILE, body).hex.encode() + _CLOSE:
        raise CorruptError(
            f"{path}: its bytes differ from what was published",
            kind="corrupt",
            hint="'dsbuild verify' lists all damage; remove the file and build again to replace it",
        )
    value = json.loads(body)
    if not isinstance(value, dict):
        raise CorruptError(f"{path}: not a JSON object", kind="corrupt")
    return value


def member(value: dict[str, Any], name: str, kind: type, path: str) -> Any:
    """``value[name]``, which must be of type ``kind``. Raises ``CorruptError`` naming ``path``."""
    found = value.get(name)
    if type(found) is not kind:
        raise CorruptError(f"{path}: {name!r} is {found!r}, not {kind.__name__}", kind="corrupt")
    return found


def counts(value: dict[str, Any], name: str, path: str) -> dict[str, int]:
    """``value[name]``, which must map text to integers of at least 0."""
    found: dict[str, int] = member(value, name, dict, path)
    for key, number in found.items():
        if type(number) is not int or number < 0:
            raise CorruptError(f"{path}: {name}.{key} is {number!r}, not a count", kind="corrupt")
    return found
