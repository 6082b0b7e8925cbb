"""The bodies that clients send, checked: Search-R1's, OpenAI's and our own. Limits on sizes are ``app.py``'s.

Unknown fields are refused: a client that asks for something is told that it will not get it.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

__all__ = ["EmbeddingsBody", "RetrieveBody", "SearchBody", "SearchQuery"]


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is no text") from None
    return text


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, AfterValidator(_whole)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class RetrieveBody(_Body):
    """``POST /retrieve``. Source: Search-R1's retrieval server (facts 3); a query may be ``question [SEP] query``."""

    queries: list[Text]
    topk: int | None = None
    return_scores: bool = False


class EmbeddingsBody(_Body):
    """``POST /v1/embeddings``. Source: OpenAI's API; ``input_type`` as other servers with two kinds of text have it."""

    input: Annotated[list[Text], BeforeValidator(_listed)]
    model: Text | None = None
    input_type: Literal["query", "passage", "document", "plain"] | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None


class SearchQuery(_Body):
    """What to search for, the user's question, and the queries sent before (for encoders that read them)."""

    query: Text
    question: Text = ""
    history: list[Text] = []


class SearchBody(_Body):
    """``POST /search``."""

    queries: list[SearchQuery]
    k: int | None = None
