"""How a client's string becomes a query or a passage, and how a passage is shown to a Search-R1 agent.

Owns what the wire says in one string. Prefix, separator and lengths are the encoder's.
"""

from agentic_r.encoder.settings import EncoderSettings
from agentic_r.types import Passage, QueryText

__all__ = ["read_passage", "read_query", "show_contents"]


def read_query(text: str, settings: EncoderSettings) -> QueryText:
    """Read ``question [SEP] query`` as sentence-transformers users and published agents write it into one string.

    Without the encoder's separator, or where it takes no question, the text is the query alone. Where it takes earlier
    queries, they stand between the two, each behind a separator. Elsewhere the last separator counts; the encoder takes
    others for user text and leaves them out.
    """
    if settings.query_format == "query" or settings.separator is None:
        return QueryText(text)
    if settings.query_format == "history" and settings.separator in text:
        first, *earlier, last = (part.strip() for part in text.split(settings.separator))
        return QueryText(last, first, tuple(part for part in earlier if part))
    question, separator, query = text.rpartition(settings.separator)
    return QueryText(query.strip(), question.strip()) if separator else QueryText(text)


def read_passage(text: str) -> Passage:
    """Read a passage that a client wants the vector of: its title, where it has one, is its first line."""
    return Passage(id="", document_id="", title="", text=text)


def show_contents(passage: Passage) -> str:
    """Return ``"title"``, newline, text: the published corpus' one field, whose first line agents take for the title.

    Source: Agentic-R's corpus and Search-R1's client, which splits at the first newline.
    """
    return f'"{" ".join(passage.title.split())}"\n{passage.text}'
