"""Which scripts are written without spaces between words.

Owns that one fact for answers, passages and BM25: each such character counts as a word of its own. Hangul is
written with spaces; Thai, Lao, Khmer and Burmese have spaces between phrases, which then count as words.
"""

import re

__all__ = ["UNSPACED", "UNSPACED_CHARACTER"]

# The inside of a character class: ideographs (all planes), iteration marks, kana with small, long and half-width
# forms. Voicing marks (U+3099-309C) stay outside, so that they remain with the character before them.
UNSPACED = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)

UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
