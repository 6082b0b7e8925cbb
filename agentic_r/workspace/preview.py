"""Previews: the line of a document that best answers to a query, cut to a window."""

import re

from agentic_r.workspace.excerpts import Excerpt, cut_text
from agentic_r.workspace.terms import any_of, content_terms

__all__ = ["Previewer"]


class Previewer:
    """Finds the excerpts of one query."""

    def __init__(self, query: str) -> None:
        """Look for the query's content terms, whatever their case."""
        terms = content_terms(query)
        self._terms = re.compile(any_of(terms), re.IGNORECASE) if terms else None

    def best_line(self, lines: list[str]) -> int:
        """Return the place of the line with the most different terms; the first of equals that is not blank.

        A document without a line that is not blank has its best line at 0.
        """
        best, most = 0, -1
        for place, line in enumerate(lines):
            count = len(self._found(line)) if line.strip() else -1
            if count > most:
                best, most = place, count
        return best

    def excerpt(self, line: str, *, max_characters: int) -> Excerpt:
        """Return the window of the line that holds most hits, centred on them."""
        hits = [] if self._terms is None else [found.span() for found in self._terms.finditer(line)]
        return cut_text(line, hits, max_characters=max_characters)

    def _found(self, line: str) -> set[str]:
        return set() if self._terms is None else {found.lower() for found in self._terms.findall(line)}
