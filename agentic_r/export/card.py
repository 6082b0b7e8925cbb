"""The model card of an export: ``README.md``, from ``card.md.jinja``.

Facts about the encoder are read from the encoder; what only the run knows (base, data, scores, licence) is given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from jinja2 import Environment, StrictUndefined
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

from agentic_r.config import ExportConfig
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.settings import EncoderSettings
from agentic_r.encoder.text import passage_text, query_text
from agentic_r.export.onnx_graph import ONNX_FILES
from agentic_r.types import Passage, QueryText

__all__ = ["Card", "ScoreLine", "pooling_name", "render_card"]

UNKNOWN_LICENCE = (
    "Not known to the program that made this folder. The licence of the base encoder and the terms of the training "
    "data bind this encoder too: state them here before passing it on."
)


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One measured value with its 95 % interval."""

    retriever: str
    measure: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Card:
    """What a run knows about its encoder.

    Attributes:
        name: Title of the card.
        base: The encoder that training started from.
        temperature: Of the loss; None where it is not known.
        data: Sentences about the corpus, questions, labels and instances.
        settings: Training settings to show, by name.
        scores: Measured values; empty where nothing was measured.
        scores_note: On what the scores were measured.
        licence: What is known about licences of base and data.
    """

    name: str
    base: str
    temperature: float | None = None
    data: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    scores: tuple[ScoreLine, ...] = ()
    scores_note: str = ""
    licence: str = UNKNOWN_LICENCE


def render_card(card: Card, encoder: BiEncoder, *, config: ExportConfig | None = None) -> str:
    """Return the text of the card, Markdown with the front matter that model hubs read.

    Args:
        card: What the run knows.
        encoder: The encoder as it is exported.
        config: Which graphs and shorter vectors the export has; by default none.
    """
    config = config or ExportConfig()
    source = resources.files("agentic_r.export").joinpath("card.md.jinja").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    return environment.from_string(source).render(
        card=card,
        settings=encoder.settings,
        dimension=encoder.dimension,
        pooling=pooling_name(encoder),
        normalised=any(isinstance(module, Normalize) for module in encoder.model.children()),
        fingerprint=encoder.fingerprint,
        query_literal=_query_literal(encoder.settings),
        prefixed_query=_prefixed_query(encoder.settings),
        passage_literal=_passage_literal(encoder.settings),
        limit=max(encoder.settings.max_query_tokens, encoder.settings.max_passage_tokens),
        graphs={precision: ONNX_FILES[precision] for precision in config.onnx},
        dimensions=config.dimensions,
    )


def pooling_name(encoder: BiEncoder) -> str:
    """Return how token vectors become one vector, e.g. ``mean``."""
    modes = [module.pooling_mode for module in encoder.model.children() if isinstance(module, Pooling)]
    return ", ".join(mode if isinstance(mode, str) else " and ".join(mode) for mode in modes)


def _query_literal(settings: EncoderSettings) -> str:
    text = query_text(QueryText(query="{query}", question="{question}"), settings)
    return _format_string(text.removeprefix(settings.query_prefix))


def _prefixed_query(settings: EncoderSettings) -> str:
    return _format_string(query_text(QueryText(query="{query}", question="{question}"), settings))


def _passage_literal(settings: EncoderSettings) -> str:
    text = passage_text(Passage(id="", document_id="", title="{title}", text="{text}"), settings)
    return _format_string(text.removeprefix(settings.passage_prefix))


def _format_string(text: str) -> str:
    """Python source of an f-string; the text holds our placeholders and a separator, and no quotes."""
    escaped = text.replace("\n", "\\n")
    return f'f"{escaped}"'
