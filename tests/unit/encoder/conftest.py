"""A tiny encoder (1 layer x 16) whose vocabulary is learned from a few lines."""

import os

import pytest

from agentic_r.config import ScratchEncoder
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.scratch_model import new_model
from agentic_r.encoder.settings import EncoderSettings

os.environ["HF_HUB_OFFLINE"] = "1"

LINES = [
    "the quick brown fox jumps over the lazy dog and runs to the river",
    "which city is the capital of the country where the author of the book was born",
    "question query passage title text one two three four five six seven eight nine ten",
    "zebra-42 stands in the tail , far from the head ! 西游记 是 小说",
] * 3


def tiny_settings(**changes):
    return EncoderSettings.model_validate(
        {
            "query_prefix": "query: ",
            "passage_prefix": "passage: ",
            "query_format": "question_query",
            "max_query_tokens": 24,
            "max_passage_tokens": 32,
            "separator": "[SEP]",
            "dtype": "float32",
            **changes,
        }
    )


def tiny_encoder(folder, *, seed=0, **changes):
    config = ScratchEncoder(
        kind="scratch", layers=1, width=16, heads=2, vocabulary=300, max_query_tokens=64, max_passage_tokens=64
    )
    return BiEncoder(new_model(config, LINES, folder / f"parts-{seed}", seed=seed), tiny_settings(**changes))


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """Shared by tests that change nothing but its counts."""
    return tiny_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def make_encoder(tmp_path):
    """Make a fresh encoder with other settings or another seed."""

    def make(**changes):
        return tiny_encoder(tmp_path, **changes)

    return make
