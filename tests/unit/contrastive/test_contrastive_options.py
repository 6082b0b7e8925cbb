"""What may be switched on: precision, LoRA, layer checkpointing, Matryoshka, margin, soft targets."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from test_contrastive_trainer import H13, WORDS, Stopped, stop_at, ten_samples, train, weights
from tiny_encoder import tiny_encoder
from transformers import T5Config, T5EncoderModel

from agentic_r.artifacts.jsonl import read_jsonl
from agentic_r.config import LoraConfig
from agentic_r.contrastive.cuts import CutTexts
from agentic_r.contrastive.loss import Identities, SoftTargets, info_nce, matryoshka_info_nce
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError, DataError
from agentic_r.types import Passage


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> BiEncoder:
    return tiny_encoder([*WORDS, "query", "passage"], folder=tmp_path_factory.mktemp("base"))


def losses(folder):
    return [line["loss"] for line in read_jsonl(folder / "metrics.jsonl")]


def changed(**changes):
    return H13.model_copy(update=changes)


def plain(num_rows: int, num_columns: int) -> Identities:
    return Identities(
        positive_B=torch.arange(num_rows),
        row_ids_BK=torch.arange(num_rows)[:, None],
        row_texts_BK=torch.arange(num_rows)[:, None],
        column_ids_P=torch.arange(num_columns),
        column_texts_P=torch.arange(num_columns),
    )


# One query at angle 0; columns at cosines 0.5 (its positive), 0.7, 0.55, 0.0
QUERY = torch.tensor([[1.0, 0.0]])
COLUMNS = torch.tensor([[math.cos(angle), math.sin(angle)] for angle in map(math.acos, (0.5, 0.7, 0.55, 0.0))])


def test_negatives_closer_than_the_positive_by_more_than_the_margin_are_left_out_and_counted():
    result = info_nce(QUERY, COLUMNS, identities=plain(1, 4), temperature=1.0, false_negative_margin=0.1)
    # 0.7 > 0.5 + 0.1 goes, 0.55 stays: log(1 + e^0.05 + e^-0.5) = 0.976116
    assert result.num_likely_positives == 1
    assert float(result.loss) == pytest.approx(math.log(1 + math.exp(0.05) + math.exp(-0.5)), abs=1e-6)


def test_a_row_whose_every_negative_is_likely_positive_is_left_out_of_the_mean():
    queries = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    columns = torch.stack([COLUMNS[0], COLUMNS[1]])  # cosines with row 1: 0.5 and 0.7, with row 2: 0.866 and 0.714
    who = replace(
        plain(2, 2),
        positive_B=torch.tensor([0, 0]),
        row_ids_BK=torch.tensor([[0], [0]]),
        row_texts_BK=torch.tensor([[0], [0]]),
    )
    result = info_nce(queries, columns, identities=who, temperature=1.0, false_negative_margin=0.1)
    assert result.counted_B.tolist() == [False, True]
    expected = math.log(1 + math.exp(math.sqrt(1 - 0.49) - math.sqrt(1 - 0.25)))
    assert float(result.loss) == pytest.approx(expected, abs=1e-6)


def test_a_step_in_which_the_margin_leaves_no_negative_has_no_loss_to_learn_from():
    result = info_nce(QUERY, COLUMNS[:2], identities=plain(1, 2), temperature=1.0, false_negative_margin=0.1)
    assert math.isnan(float(result.loss))


def test_soft_targets_are_mixed_with_the_hard_one():
    share = torch.tensor([[0.75, 0.25, 0.0, 0.0]])
    found = info_nce(
        QUERY, COLUMNS, identities=plain(1, 4), temperature=1.0, soft_targets=SoftTargets(share, weight=0.5)
    )
    total = math.log(sum(math.exp(value) for value in (0.5, 0.7, 0.55, 0.0)))
    hard = total - 0.5
    soft = 0.75 * (total - 0.5) + 0.25 * (total - 0.7)
    assert float(found.loss) == pytest.approx((hard + soft) / 2, abs=1e-6)


def test_rows_without_relevance_have_the_hard_target_alone():
    hard = info_nce(QUERY, COLUMNS, identities=plain(1, 4), temperature=0.1).loss
    none = SoftTargets(torch.zeros(1, 4), weight=0.9)
    assert float(
        info_nce(QUERY, COLUMNS, identities=plain(1, 4), temperature=0.1, soft_targets=none).loss
    ) == pytest.approx(float(hard))


def test_soft_targets_on_a_masked_column_are_spread_over_the_others_and_gradients_stay_finite():
    who = replace(plain(1, 4), row_ids_BK=torch.tensor([[0, 1]]), row_texts_BK=torch.tensor([[0, 1]]))
    query = QUERY.clone().requires_grad_()
    share = torch.tensor([[0.4, 0.4, 0.2, 0.0]])
    found = info_nce(query, COLUMNS, identities=who, temperature=0.1, soft_targets=SoftTargets(share, weight=1.0)).loss
    found.backward()
    total = math.log(sum(math.exp(value / 0.1) for value in (0.5, 0.55, 0.0)))
    assert float(found.detach()) == pytest.approx(2 / 3 * (total - 5.0) + 1 / 3 * (total - 5.5), abs=1e-4)
    assert bool(torch.isfinite(query.grad).all())


def test_the_matryoshka_loss_is_the_mean_over_whole_and_shortened_vectors():
    generator = torch.Generator().manual_seed(0)
    queries, passages = torch.randn(3, 8, generator=generator), torch.randn(5, 8, generator=generator)
    mean = matryoshka_info_nce(queries, passages, dimensions=(4, 2), identities=plain(3, 5), temperature=0.1)
    parts = [
        float(info_nce(queries[:, :width], passages[:, :width], identities=plain(3, 5), temperature=0.1).loss)
        for width in (8, 4, 2)
    ]
    assert float(mean.loss) == pytest.approx(sum(parts) / 3, abs=1e-6)
    whole = info_nce(queries, passages, identities=plain(3, 5), temperature=0.1)
    assert float(mean.positive_similarity) == float(whole.positive_similarity)


def test_bfloat16_training_starts_within_bounds_of_float32(base, tmp_path):
    """At temperature 0.01 an encoder in bfloat16 moves cosines by up to 2^-8, the loss of a step by less than 0.4."""
    train(base, tmp_path / "half", config=changed(precision="bfloat16"))
    train(base, tmp_path / "full")
    half, full = losses(tmp_path / "half"), losses(tmp_path / "full")
    assert half != full
    assert half[:3] == pytest.approx(full[:3], abs=0.4)
    assert all(value.dtype == torch.float32 for value in weights(tmp_path / "half").values())


def test_similarities_of_half_precision_vectors_lose_nothing_more(base):
    """The loss itself adds no error: bfloat16 vectors give the loss of the same vectors in float32."""
    generator = torch.Generator().manual_seed(1)
    queries = (torch.ones(4, 64) + 0.3 * torch.randn(4, 64, generator=generator)).bfloat16()
    passages = (torch.ones(8, 64) + 0.3 * torch.randn(8, 64, generator=generator)).bfloat16()
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            half = info_nce(queries, passages, identities=plain(4, 8), temperature=0.01).loss
        assert float(half) == float(
            info_nce(queries.float(), passages.float(), identities=plain(4, 8), temperature=0.01).loss
        )


def test_layer_checkpointing_changes_no_loss(base, tmp_path):
    train(base, tmp_path / "twice", config=changed(gradient_checkpointing=True, activation_bytes=0))
    train(base, tmp_path / "once")
    assert losses(tmp_path / "twice") == pytest.approx(losses(tmp_path / "once"), rel=1e-4)


LORA = changed(lora=LoraConfig(rank=2, modules=("query", "value")), learning_rate=1e-2)


def test_lora_changes_the_named_modules_alone_and_is_saved_merged(base, tmp_path):
    train(base, tmp_path, config=LORA)
    before = {name: value for name, value in base.model.state_dict().items()}
    after = BiEncoder.load(tmp_path / "encoder").model.state_dict()
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all(".query.weight" in name or ".value.weight" in name for name in moved)


def test_h13_lora_resumes_exactly(base, tmp_path):
    train(base, tmp_path / "unbroken", config=LORA)
    with pytest.raises(Stopped):
        train(base, tmp_path / "broken", config=LORA, progress=stop_at(8))
    train(base, tmp_path / "broken", config=LORA)
    one, other = weights(tmp_path / "unbroken"), weights(tmp_path / "broken")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_lora_modules_that_do_not_exist_are_refused(base, tmp_path):
    with pytest.raises(ConfigError, match=r"contrastive\.lora\.modules \['w_q'\]"):
        train(base, tmp_path, config=changed(lora=LoraConfig(modules=("w_q",))))


def test_float16_is_refused_without_a_gpu(base, tmp_path):
    with pytest.raises(ConfigError, match=r"contrastive\.precision float16 needs a GPU"):
        train(base, tmp_path, config=changed(precision="float16"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_float16_training_starts_within_bounds_of_float32_on_a_gpu(base, tmp_path):
    for name, precision in (("half", "float16"), ("full", "float32")):
        start = BiEncoder(copy.deepcopy(base.model).to("cuda"), base.settings)
        train(start, tmp_path / name, config=changed(precision=precision))
    assert losses(tmp_path / "half")[:3] == pytest.approx(losses(tmp_path / "full")[:3], abs=0.1)


def test_matryoshka_dimensions_that_vectors_do_not_have_are_refused(base, tmp_path):
    with pytest.raises(ConfigError, match=r"matryoshka_dims \[32\]: vectors have 32 components"):
        train(base, tmp_path, config=changed(matryoshka_dims=(16, 32)))


def test_soft_targets_need_relevance_that_fits(base, tmp_path):
    soft = changed(soft_target_weight=0.5)
    with pytest.raises(ConfigError, match="no instance has relevance"):
        train(base, tmp_path, config=soft)
    instances, passages = ten_samples()
    short = [replace(item, relevance=(1.0,)) for item in instances]
    with pytest.raises(DataError, match="instance i0: 1 values of relevance for 3 passages"):
        train(base, tmp_path, config=soft, instances=short, passages=passages)


def test_soft_targets_pull_towards_a_graded_negative(base, tmp_path):
    instances, passages = ten_samples()
    passages |= {"x": Passage("x", "d", "", "w50 w51 w52")}
    graded = [replace(item, relevance=(1.0, 0.9, 0.0)) for item in instances]
    for name, config in (("soft", changed(soft_target_weight=1.0)), ("hard", H13)):
        train(
            base, tmp_path / name, config=config.model_copy(update={"epochs": 8}), instances=graded, passages=passages
        )
    last = {
        name: [line["negative_similarity"] for line in read_jsonl(tmp_path / name / "metrics.jsonl")][-5:]
        for name in ("soft", "hard")
    }
    assert sum(last["soft"]) > sum(last["hard"])


def test_texts_that_do_not_fit_are_counted_in_the_summary(base, tmp_path):
    instances, passages = ten_samples()
    instances[0] = replace(instances[0], question="w1 " * 40)  # of 24 tokens
    instances[1] = replace(instances[1], query="w1 " * 40)
    passages["p3"] = replace(passages["p3"], text="w1 " * 40)  # of 32
    summary = train(base, tmp_path, instances=instances, passages=passages, config=changed(epochs=1))
    # the cut query leaves its question out
    assert summary.cut == CutTexts(histories_shortened=0, questions_shortened=2, queries_cut=1, passages_cut=1)


@pytest.fixture
def tied(tmp_path) -> BiEncoder:
    """A T5 encoder, whose embeddings stand under two names."""
    bert = tiny_encoder([*WORDS, "query", "passage"], folder=tmp_path / "bert")
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    bert.model.tokenizer.save_pretrained(tmp_path / "t5")
    T5EncoderModel(T5Config(vocab_size=len(bert.model.tokenizer), **sizes)).save_pretrained(tmp_path / "t5")
    backbone = Transformer(str(tmp_path / "t5"))
    modules = [backbone, Pooling(32, pooling_mode="mean"), Normalize()]
    return BiEncoder(SentenceTransformer(modules=modules, device="cpu"), bert.settings)


def test_h13_tied_weights_are_saved_once_and_resume_exactly(tied, tmp_path):
    train(tied, tmp_path / "unbroken", config=H13)
    with pytest.raises(Stopped):
        train(tied, tmp_path / "broken", config=H13, progress=stop_at(8))
    train(tied, tmp_path / "broken", config=H13)
    one, other = weights(tmp_path / "unbroken"), weights(tmp_path / "broken")
    assert all(torch.equal(one[name], other[name]) for name in one)
