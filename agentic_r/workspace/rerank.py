"""RARG++'s reranking of matches: of a pool in scope order, those whose excerpts are nearest to what is looked for.

What is looked for is the scope's query with the words of the pattern, in whatever script, behind it. Helps where one
answer is wanted and hurts where a list is: a scan asks for it or does not.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from agentic_r.types import Passage, QueryText
from agentic_r.workspace.excerpts import cut_excerpt
from agentic_r.workspace.scan import ScanLine, ScanResult
from agentic_r.workspace.similarity import TextSimilarity
from agentic_r.workspace.store import DocumentStore
from agentic_r.workspace.terms import content_terms

__all__ = ["pattern_words", "rerank_matches"]

_MAX_WORDS = 32  # of a pattern, as published (RARG 2.5)
_NOT_LITERAL = re.compile(
    r"""
    \\[pP]\{[^}]*\} | \\x\{[^}]*\} | \\x[0-9A-Fa-f]{2} | \\[a-zA-Z0-9]  # classes and characters by name or number
    | \[(?:\\.|[^\]\\])*\]                                            # classes by their members
    | \{[0-9,]*\}                                                     # repetitions
    | \(\?(?:P?<\w+>|[a-zA-Z-]*[:)])                                   # names of groups, flags
    """,
    re.VERBOSE,
)


def pattern_words(pattern: str) -> tuple[str, ...]:
    """Return the words that a pattern spells out: classes, repetitions and escapes are not words."""
    return content_terms(_NOT_LITERAL.sub(" ", pattern).replace("\\", ""))[:_MAX_WORDS]


def rerank_matches(
    result: ScanResult,
    *,
    similarity: TextSimilarity,
    store: DocumentStore,
    document_id: Callable[[str], str],
    query: QueryText,
    pattern: str,
    excerpt_characters: int,
    max_matches: int,
) -> ScanResult:
    """Keep the ``max_matches`` lines of a result whose excerpts are nearest; equal ones in scope order.

    Args:
        result: A scan without lines around matches.
        similarity: Says how near an excerpt is.
        store: Knows the documents' titles.
        document_id: The id behind a file name.
        query: The scope's query.
        pattern: What was scanned for.
        excerpt_characters: Width of an excerpt's window.
        max_matches: How many to keep; with no more than that, the result stays as it is.

    Returns:
        The same result with fewer lines, nearest first; ``num_found`` still counts the pool.

    Raises:
        ToolFailure: the encoder failed.
    """
    if len(result.lines) <= max_matches:
        return result
    words = [word for word in pattern_words(pattern) if word.lower() not in query.query.lower()]
    asked = replace(query, query=" ".join([query.query, *words]))
    scores = similarity.scores(asked, [_passage(line, store, document_id, excerpt_characters) for line in result.lines])
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:max_matches]
    return replace(result, lines=tuple(result.lines[place] for place in order))


def _passage(line: ScanLine, store: DocumentStore, document_id: Callable[[str], str], width: int) -> Passage:
    key = document_id(line.name)
    excerpt = cut_excerpt(line, max_characters=width)
    return Passage(f"{key}:{line.line_number}", key, store.title(key), excerpt.text)
