"""Tiny encoders and passages for the indexes."""

import os

import pytest
from index_fakes import TableEncoder

from agentic_r.config import IndexConfig, ScratchEncoder
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.scratch_model import new_model
from agentic_r.encoder.settings import EncoderSettings
from agentic_r.index.dense import build_dense_index
from agentic_r.types import Passage

os.environ["HF_HUB_OFFLINE"] = "1"

LINES = ["fox dog river city book author", "one two three four five", "zebra-42 red green blue"] * 3
ANIMALS = ["fox", "dog", "hen", "owl", "bee", "cat", "cow"]


@pytest.fixture
def make_encoder(tmp_path):
    """Make a random encoder of dimension 8 with other settings or another seed."""

    def make(*, seed=0, **changes):
        config = ScratchEncoder(
            kind="scratch", layers=1, width=8, heads=2, vocabulary=120, max_query_tokens=64, max_passage_tokens=64
        )
        settings = {
            "query_prefix": "query: ",
            "passage_prefix": "passage: ",
            "query_format": "question_query",
            "max_query_tokens": 32,
            "max_passage_tokens": 48,
            "separator": "[SEP]",
            "dtype": "float32",
            **changes,
        }
        model = new_model(config, LINES, tmp_path / f"parts-{seed}", seed=seed)
        return BiEncoder(model, EncoderSettings.model_validate(settings))

    return make


@pytest.fixture
def passages():
    """Seven one-word passages of four documents."""
    return [Passage(f"p{n}", f"d{n // 2}", "", animal) for n, animal in enumerate(ANIMALS)]


@pytest.fixture
def build(tmp_path):
    """Build a dense index with the test's own progress and shard size."""

    def build_in(encoder, passages, *, folder="index", corpus="corpus", shard=3, progress=lambda done, total: None):
        return build_dense_index(
            tmp_path / folder,
            encoder,
            passages,
            corpus_fingerprint=corpus,
            config=IndexConfig(batch_size=2, shard_passages=shard),
            progress=progress,
        )

    return build_in


@pytest.fixture
def table_encoder():
    """Seven passages at known angles; the query "east" is (1, 0)."""
    table = {
        "fox": (1, 0),
        "dog": (0.8, 0.6),
        "hen": (0.6, 0.8),
        "owl": (0.6, 0.8),
        "bee": (0, 1),
        "cat": (0.6, -0.8),
        "cow": (-1, 0),
        "east": (1, 0),
        "north": (0, 1),
    }
    return TableEncoder(table)
