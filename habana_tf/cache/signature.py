"""Signs and checks entries of a cache that several users share, by a secret key.

The key is the content of a file that HABANA_SIM_CACHE_SIGNING_KEY names, at least 16 bytes; `openssl rand -hex 32`
makes one. A signature is HMAC-SHA256 over an entry's head, which holds the digests of all its parts.

Invariant: a key file that others could have written or read gives no key, and without its key a cache that asks for
signatures is not used at all.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Mapping
from typing import Any

from habana_tf.cache.entry_head import signed_bytes
from habana_tf.files.trust import Refused

LEAST_BYTES, MOST_BYTES = 16, 1 << 16
_DOMAIN = b"habana_tf recipe\0"


class SigningKey:
    """Signs and verifies entries."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def load(cls, path: str, owner: int | None = None) -> SigningKey:
        """The key in the file `path`, believed when this user, root or `owner` has it and no others read or write it;
        its group may read. White space around it does not count. Raises OSError or Refused."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Refused(f"the signing key {path} is not a regular file", "type")
            if status.st_uid not in (os.geteuid(), 0, owner):
                raise Refused(f"the signing key {path} belongs to user {status.st_uid}: copy it", "owner")
            if status.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
                mode = stat.S_IMODE(status.st_mode)
                raise Refused(f"the signing key {path} is open to others (mode {mode:o}): chmod g-w,o-rwx it", "mode")
            secret = os.read(descriptor, MOST_BYTES).strip()
        finally:
            os.close(descriptor)
        if len(secret) < LEAST_BYTES:
            raise Refused(f"the signing key {path} has fewer than {LEAST_BYTES} bytes: openssl rand -hex 32", "type")
        return cls(secret)

    def sign(self, text: bytes) -> str:
        """The signature of `text`, in hexadecimal."""
        return hmac.new(self._secret, _DOMAIN + text, hashlib.sha256).hexdigest()

    def check(self, head: Mapping[str, Any]) -> None:
        """Raises Refused unless this key signed the entry with this head."""
        signature = head.get("signature")
        if not isinstance(signature, str):
            raise Refused(f"the recipe {head['name']} is not signed", "signature")
        if not hmac.compare_digest(signature.encode(), self.sign(signed_bytes(head)).encode()):
            raise Refused(f"the recipe {head['name']} is signed with another key", "signature")
