"""What tests of the export share: a BERT of width 32, trained for two steps as in H19, and texts for it."""

from pathlib import Path

from agentic_r.config import ContrastiveConfig, ScratchEncoder
from agentic_r.contrastive.trainer import train_retriever
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.scratch_model import new_model
from agentic_r.encoder.settings import EncoderSettings
from agentic_r.export.card import Card
from agentic_r.types import Passage, QueryText, TrainingInstance

SIZES = ScratchEncoder(kind="scratch", layers=1, width=32, vocabulary=200, max_query_tokens=32, max_passage_tokens=48)
SETTINGS = EncoderSettings(
    query_prefix="query: ",
    passage_prefix="passage: ",
    query_format="question_query",
    max_query_tokens=32,
    max_passage_tokens=48,
    separator="[SEP]",
    dtype="float32",
)
TEXTS = (
    "the river ends in the lake",
    "the lake lies behind the hill 7",
    "query: passage: what ends where",
    "川は湖 这条河 🌊",
)
PASSAGES = {
    f"p{number}": Passage(f"p{number}", f"d{number}", f"Title {number}" if number % 2 else "", text)
    for number, text in enumerate(TEXTS)
}
QUERIES = (QueryText("which lake", "where does the river end"), QueryText("hill", "what " * 30), QueryText("lake"))
CARD = Card(name="tiny retriever", base="a random BERT", temperature=0.01, licence="Apache-2.0, made from nothing.")


def train_tiny_encoder(folder: Path) -> Path:
    """Train for two steps; return the encoder's folder."""
    base = BiEncoder(new_model(SIZES, TEXTS, folder / "parts", seed=0).to("cpu"), SETTINGS)
    instances = [TrainingInstance(f"i{n}", "q", "where", f"lake {n}", f"p{n}", (f"p{1 - n}",)) for n in range(2)]
    config = ContrastiveConfig(batch_size=2, epochs=2, min_instances=1, learning_rate=1e-3)
    options = {"seed": 0, "threads": 1, "progress": silent}
    train_retriever(base, instances, PASSAGES, config, folder=folder, **options)
    return folder / "encoder"


def silent(done: int, total: int) -> None:
    """Progress that nobody reads."""
