"""File names made from titles and ids: readable, stable, never colliding.

A name is the readable part of a label followed by a hash of the full key, so that two keys never share a
name even where their labels are equal, differ by case only, or are empty. Limits are in bytes of UTF-8, since
file systems count bytes.
"""

import hashlib
import unicodedata

__all__ = ["MAX_NAME_BYTES", "file_name"]

MAX_NAME_BYTES = 200  # file systems allow 255; the rest is left for suffixes such as .part
_HASH_CHARACTERS = 12  # 48 bits: with a million equal labels, a collision has a chance of 0.2 % (and is then an error)


def file_name(label: str, *, key: str, extension: str) -> str:
    """Return ``<label>_<hash of key><extension>``, at most ``MAX_NAME_BYTES`` bytes long.

    Args:
        label: What people should recognise, such as a title. Letters, digits and combining marks of any
            script are kept, runs of anything else become one underscore.
        key: What makes the name unique, such as an id.
        extension: With its dot.
    """
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    suffix = f"_{digest}{extension}"
    readable = _cut(_readable(label) or "untitled", MAX_NAME_BYTES - len(suffix.encode()))
    return readable.rstrip("_-") + suffix


def _readable(label: str) -> str:
    kept = (character if _is_word(character) else "_" for character in unicodedata.normalize("NFC", label))
    return "_".join(part for part in "".join(kept).split("_") if part.strip("-")).strip("-")


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "-" or unicodedata.category(character) in ("Mn", "Mc")


def _cut(text: str, max_bytes: int) -> str:
    return text.encode()[:max_bytes].decode("utf-8", "ignore")
