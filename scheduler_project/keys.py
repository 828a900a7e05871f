"""Keys as settings name them."""

import base64


def encryption_keys(text: str) -> tuple[bytes, ...]:
    """Keys of 32 bytes each, comma-separated, in base64 or hexadecimal. Raises ``ValueError``."""
    keys = tuple(_key(part.strip()) for part in text.split(",") if part.strip())
    if any(len(key) != 32 for key in keys):
        raise ValueError(
            "each must be 32 bytes in base64 or hexadecimal; `openssl rand -base64 32` makes one"
        )
    return keys


def _key(text: str) -> bytes:
    try:
        if len(text) == 64:
            return bytes.fromhex(text)
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        return b""
