"""Fingerprints: short hashes that say whether two artefacts belong together; and seeds, made the same way.

Owns how values become bytes before they are hashed. Lone surrogates count like any other character: an id or a text
that UTF-8 cannot hold must still have a fingerprint.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "fingerprint_files",
    "fingerprint_strings",
    "fingerprint_text",
    "fingerprint_value",
    "generator_seed",
    "same_text_key",
]

_CHARACTERS = 16


def fingerprint_value(value: object) -> str:
    """Return the hash of a JSON value; the order of keys does not count.

    Raises:
        TypeError: ``value`` holds something that JSON has no form for (a set, say: its order changes from run to run).
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(_bytes(text)).hexdigest()[:_CHARACTERS]


def fingerprint_strings(strings: Iterable[str]) -> str:
    """Return the hash of a sequence of strings; its order and its borders count."""
    digest = hashlib.sha256()
    for text in strings:
        raw = _bytes(text)
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.hexdigest()[:_CHARACTERS]


def same_text_key(text: str) -> str:
    """Return the form in which two texts are "the same": compatibility forms, case and white space do not count."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def fingerprint_text(text: str) -> str:
    """Hash of what makes two passages the same text (``same_text_key``)."""
    return fingerprint_strings([same_text_key(text)])


def fingerprint_files(paths: Iterable[Path]) -> str:
    """Return the hash of files' names and bytes, in sorted order of name; the folders they are in do not count."""
    digest = hashlib.sha256()
    for path in sorted(paths, key=lambda item: item.name):
        name = _bytes(path.name)
        digest.update(len(name).to_bytes(8, "big"))
        digest.update(name)
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:_CHARACTERS]


def generator_seed(seed: int, *parts: object) -> int:
    """Return the seed of a generator for one purpose: hash of (seed, iteration, stage, item id), 63 bits."""
    text = json.dumps([seed, *[str(part) for part in parts]], ensure_ascii=False)
    return int.from_bytes(hashlib.sha256(_bytes(text)).digest()[:8], "big") >> 1


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
