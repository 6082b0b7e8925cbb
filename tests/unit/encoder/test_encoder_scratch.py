"""Training from scratch: what it learns, that it is the same every time, and that a kill changes nothing."""

import math
import random

import numpy as np
import pytest
import torch

from agentic_r.config import ScratchEncoder
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.build import build_encoder
from agentic_r.encoder.scratch import inverse_cloze_loss, train_scratch_encoder
from agentic_r.errors import DataError
from agentic_r.types import Passage, QueryText


def corpus(num_passages=60, seed=5):
    generator = random.Random(seed)
    syllables = ["ka", "lo", "mi", "ren", "tu", "vos", "zel", "pra", "dun", "eth"]
    names = ["".join(generator.sample(syllables, 3)).title() for _ in range(num_passages)]
    lines = [
        "{} lives by the river and keeps bees",
        "the house of {} has a red roof",
        "people say that {} sings at night",
    ]
    return [Passage(f"p{n}", f"d{n}", name, generator.choice(lines).format(name)) for n, name in enumerate(names)]


def config(steps, **changes):
    return ScratchEncoder(
        kind="scratch",
        layers=1,
        width=32,
        heads=2,
        vocabulary=300,
        steps=steps,
        batch_size=16,
        learning_rate=5e-3,
        max_query_tokens=16,
        max_passage_tokens=24,
        **changes,
    )


def train(folder, steps, *, seed=0, progress=lambda done, total: None):
    return train_scratch_encoder(config(steps), corpus(), folder, seed=seed, progress=progress, threads=1)


def share_of_names_found_first(encoder):
    passages = corpus()
    scores = (
        encoder.encode_queries([QueryText(passage.title) for passage in passages]) @ encoder.encode_passages(passages).T
    )
    return float((scores.argmax(axis=1) == np.arange(len(passages))).mean())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_starting_weights_find_names_far_better_than_weights_drawn_as_bert_draws_them(tmp_path, seed):
    start = train(tmp_path / "start", 0, seed=seed)
    found = share_of_names_found_first(start)
    words = next(weight for name, weight in start.model.named_parameters() if "word_embeddings" in name)
    with torch.no_grad():
        words.normal_(0, 0.02, generator=torch.Generator().manual_seed(seed))
    assert found >= share_of_names_found_first(start) + 0.3


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_brings_stretches_of_text_nearer_to_their_passages(tmp_path, seed):
    def loss(encoder):
        passages = corpus(num_passages=40)
        queries = [QueryText(" ".join(passage.text.split()[-5:])) for passage in passages]
        queries_BD, passages_BD = (
            torch.from_numpy(vectors)
            for vectors in (encoder.encode_queries(queries), encoder.encode_passages(passages))
        )
        return float(inverse_cloze_loss(queries_BD, passages_BD, [passage.document_id for passage in passages]))

    assert loss(train(tmp_path / "trained", 60, seed=seed)) <= 0.8 * loss(train(tmp_path / "start", 0, seed=seed))


class Killed(BaseException):
    """Stands for kill -9: nothing after it runs."""


def test_killed_training_ends_in_the_weights_of_the_unbroken_one(tmp_path):
    unbroken = train(tmp_path / "unbroken", 60)

    def kill_at(step):
        def progress(done, total):
            if done == step:
                raise Killed

        return progress

    for step in (7, 31, 55):
        with pytest.raises(Killed):
            train(tmp_path / "killed", 60, progress=kill_at(step))
    seen = []
    finished = train(tmp_path / "killed", 60, progress=lambda done, total: seen.append(done))
    assert seen[0] == 50  # the last checkpoint before step 55
    assert finished.fingerprint == unbroken.fingerprint


def test_checkpoint_of_another_seed_is_not_continued(tmp_path):
    def progress(done, total):
        if done == 30:
            raise Killed

    with pytest.raises(Killed):
        train(tmp_path / "mixed", 40, seed=1, progress=progress)
    assert train(tmp_path / "mixed", 40, seed=2).fingerprint == train(tmp_path / "clean", 40, seed=2).fingerprint


def test_seeds_differ_and_equal_seeds_do_not(tmp_path):
    first, again, other = (train(tmp_path / name, 3, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_trained_folder_is_all_that_is_left_and_loads(tmp_path):
    encoder = train(tmp_path / "encoder", 2)
    assert not (tmp_path / "encoder" / "training").exists()
    assert BiEncoder.load(tmp_path / "encoder").fingerprint == encoder.fingerprint
    assert encoder.settings.query_prefix == "query: "
    assert encoder.format_query(QueryText("a", "b")) == "query: b [SEP] a"


def test_loss_of_two_passages_by_hand():
    # cosines / 0.05: row 1 = [20, 0], row 2 = [10, 20]: -log softmax = log(1 + e^-20) and log(1 + e^-10)
    queries = torch.tensor([[1.0, 0.0], [0.5, 1.0]])
    passages = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    expected = (math.log1p(math.exp(-20)) + math.log1p(math.exp(-10))) / 2
    assert inverse_cloze_loss(queries, passages, ["a", "b"]).item() == pytest.approx(expected, rel=1e-3)


def test_passages_of_one_document_are_no_negatives_of_each_other():
    queries = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    loss = inverse_cloze_loss(queries, queries, ["a", "a", "b"])
    # rows 1 and 2 keep themselves and b: log(1 + e^-20); row 3: log(1 + 2 e^-20)
    expected = (2 * math.log1p(math.exp(-20)) + math.log1p(2 * math.exp(-20))) / 3
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_corpus_without_words_is_a_users_error(tmp_path):
    with pytest.raises(DataError, match="0 of 2 passages have text"):
        train_scratch_encoder(
            config(1),
            [Passage("a", "a", "", ""), Passage("b", "b", "", "  ")],
            tmp_path,
            seed=0,
            progress=lambda done, total: None,
            threads=1,
        )


def test_build_encoder_trains_the_configured_one(tmp_path):
    built = build_encoder(
        config(2), passages=corpus(), folder=tmp_path / "a", seed=0, threads=1, progress=lambda done, total: None
    )
    assert built.fingerprint == train(tmp_path / "b", 2).fingerprint
