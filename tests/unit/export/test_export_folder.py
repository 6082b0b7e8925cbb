"""The export folder, its proof of parity and its card, on a BERT of width 32."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tiny_export import CARD, PASSAGES, QUERIES, TEXTS, silent
from transformers import AutoModel, AutoTokenizer

from agentic_r.config import ExportConfig
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError, ParityError
from agentic_r.export.card import Card, ScoreLine, render_card
from agentic_r.export.checkpoint import ParityTexts, export_checkpoint
from agentic_r.export.folder import check_folder, check_place, export_encoder, write_folder
from agentic_r.export.parity import parity_report
from agentic_r.types import QueryText


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory) -> Path:
    return export_encoder(trained, tmp_path_factory.mktemp("export") / "retriever", card=CARD)


@pytest.fixture
def copy(exported, tmp_path) -> Path:
    """An export of its own, to be broken."""
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def prove(trained: Path, exported: Path):
    encoder = BiEncoder.load(trained, dtype="float32")
    return parity_report(encoder, exported, queries=QUERIES, passages=tuple(PASSAGES.values()), config=ExportConfig())


def export_proved(trained: Path, folder: Path) -> None:
    export_checkpoint(trained, folder, card=CARD, texts=ParityTexts(), config=ExportConfig(), progress=silent)


def edit(path: Path, change) -> None:
    value = json.loads(path.read_text())
    path.write_text(json.dumps(change(value)))


def test_h19_the_export_gives_the_trainers_vectors_for_every_kind_of_text(trained, exported):
    report = prove(trained, exported)
    (found,) = report.artefacts
    assert report.equal
    assert found.differences == ()
    assert found.max_difference is not None
    assert found.max_difference <= 1e-5
    assert found.min_cosine == pytest.approx(1.0, abs=1e-6)
    kinds = {kind.kind for kind in found.kinds}
    for side in ("query", "passage"):
        for kind in ("short", "long", "at the limit", "CJK", "emoji", "one token", "empty", "prefix by hand"):
            assert f"{side}, {kind}" in kinds
        assert f"{side}, of the run" in kinds
    assert {"passage, limit + 50", "query, with its question", "without prefix"} <= kinds
    assert all(abs(kind.min_norm - 1) <= 1e-5 and abs(kind.max_norm - 1) <= 1e-5 for kind in found.kinds)
    assert json.loads((exported / "parity.json").read_text())["equal"] is True


def test_rankings_of_the_runs_own_passages_agree(trained, exported):
    ranking = prove(trained, exported).artefacts[0].ranking
    assert (ranking.num_queries, ranking.num_passages, ranking.depth) == (3, 4, 2)
    assert (ranking.overlap, ranking.same_first) == (1.0, 1.0)


def test_without_texts_of_a_run_rankings_are_unknown_and_the_page_says_so(trained, exported):
    encoder = BiEncoder.load(trained, dtype="float32")
    report = parity_report(encoder, exported, queries=[], passages=[], config=ExportConfig())
    assert report.equal
    assert report.artefacts[0].ranking is None
    assert "not measured: no queries and passages" in (exported / "parity.html").read_text()


def test_the_folder_has_the_form_that_readers_before_sentence_transformers_5_4_know(exported):
    modules = json.loads((exported / "modules.json").read_text())
    assert [module["type"] for module in modules] == [
        "sentence_transformers.models.Transformer",
        "sentence_transformers.models.Pooling",
        "sentence_transformers.models.Normalize",
    ]
    pooling = json.loads((exported / "1_Pooling" / "config.json").read_text())
    assert {key for key, value in pooling.items() if value is True} == {"pooling_mode_mean_tokens", "include_prompt"}
    assert (pooling["pooling_mode_cls_token"], pooling["word_embedding_dimension"]) == (False, 32)
    limits = json.loads((exported / "sentence_bert_config.json").read_text())
    assert limits == {"max_seq_length": 48, "do_lower_case": False}  # another key fails in older versions
    tokenizer = json.loads((exported / "tokenizer_config.json").read_text())
    assert tokenizer["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_plain_transformers_with_mean_and_norm_by_hand_gives_the_same_vectors(trained, exported):
    tokenizer = AutoTokenizer.from_pretrained(exported, local_files_only=True)
    model = AutoModel.from_pretrained(exported, local_files_only=True)
    features = tokenizer(["query: where does the river end [SEP] which lake"], return_tensors="pt")
    with torch.inference_mode():
        tokens_BTD = model(input_ids=features["input_ids"], attention_mask=features["attention_mask"])[0]
    found = torch.nn.functional.normalize(tokens_BTD.mean(dim=1), dim=-1)
    np.testing.assert_allclose(found, BiEncoder.load(trained).encode_queries(QUERIES[:1]), atol=1e-5)


def test_h19_every_module_listed_has_its_folder_and_configuration(exported):
    for module in json.loads((exported / "modules.json").read_text()):
        name = "config.json" if module["path"] else "sentence_bert_config.json"
        assert (exported / module["path"] / name).exists()
    assert [module["path"] for module in json.loads((exported / "modules.json").read_text())] == [
        "",
        "1_Pooling",
        "2_Normalize",
    ]


def test_plain_sentence_transformers_encodes_as_the_card_says(trained, exported):
    encoder, model = BiEncoder.load(trained), SentenceTransformer(str(exported), local_files_only=True, device="cpu")
    found = model.encode_query(["where does the river end [SEP] which lake"])
    np.testing.assert_allclose(found, encoder.encode_queries(QUERIES[:1]), atol=1e-5)
    found = model.encode_document(["Title 1\nthe lake lies behind the hill 7"])
    np.testing.assert_allclose(found, encoder.encode_passages([PASSAGES["p1"]]), atol=1e-5)


def test_the_limit_stands_where_servers_look_for_it(exported):
    assert json.loads((exported / "sentence_bert_config.json").read_text())["max_seq_length"] == 48


def test_the_export_is_an_encoder_of_ours_with_the_same_fingerprint(trained, exported):
    assert BiEncoder.load(exported).fingerprint == BiEncoder.load(trained).fingerprint


def test_an_earlier_export_is_replaced_and_nothing_is_left_beside_it(trained, tmp_path):
    folder = tmp_path / "retriever"
    export_proved(trained, folder)
    (folder / "old").write_text("x")
    export_proved(trained, folder)
    assert not (folder / "old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["retriever"]


def test_a_folder_with_other_files_is_not_replaced(trained, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="holds files that are not an export"):
        export_encoder(trained, tmp_path, card=CARD)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_trained_checkpoint_is_not_replaced_by_an_export(trained, tmp_path):
    other = Path(shutil.copytree(trained, tmp_path / "other"))
    with pytest.raises(ConfigError, match=r"other: holds files that are not an export \(no parity.json\)"):
        export_proved(trained, other)
    assert BiEncoder.load(other).fingerprint == BiEncoder.load(trained).fingerprint


def test_an_export_never_takes_the_place_of_its_own_source(trained, tmp_path):
    export_proved(trained, tmp_path / "retriever")
    for source, target in (("retriever", "retriever"), ("retriever", "x/../retriever"), ("retriever/in", "retriever")):
        with pytest.raises(ConfigError, match="holds the encoder that is to be exported"):
            check_place(tmp_path / target, source=tmp_path / source)


def test_a_part_folder_is_removed_only_where_an_export_began_it(trained, tmp_path):
    part = tmp_path / "retriever.part"
    part.mkdir()
    (part / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match=r"retriever\.part: holds files that are not an export"):
        export_proved(trained, tmp_path / "retriever")
    assert (part / "thesis.txt").read_text() == "years of work"
    (part / "thesis.txt").unlink()
    write_folder(BiEncoder.load(trained), part, card=CARD)  # and killed before the proof
    export_proved(trained, tmp_path / "retriever")
    assert [path.name for path in tmp_path.iterdir()] == ["retriever"]
    assert not list((tmp_path / "retriever").glob("export-*"))


def test_a_folder_named_by_a_dot_is_that_folder_and_the_root_is_refused(trained, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    export_proved(trained, Path())
    assert (here / "parity.json").exists()
    with pytest.raises(ConfigError, match="a folder without a name"):
        check_place(Path("/"), source=trained)


def test_wrong_pooling_is_named(trained, copy):
    flags = {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
    edit(copy / "1_Pooling" / "config.json", lambda config: config | flags)
    with pytest.raises(ParityError, match=r"pooling is cls, the encoder's is mean; export again"):
        prove(trained, copy)
    report = json.loads((copy / "parity.json").read_text())
    assert report["equal"] is False
    assert report["artefacts"][0]["differences"] == ["pooling is cls, the encoder's is mean"]
    assert "pooling is cls, the encoder&#39;s is mean" in (copy / "parity.html").read_text()


def test_pooling_of_another_width_is_named(trained, copy):
    edit(copy / "1_Pooling" / "config.json", lambda config: config | {"pooling_mode_max_tokens": True})
    with pytest.raises(ParityError, match=r"vectors of another length.*pooling is \('max', 'mean'\)"):
        prove(trained, copy)


def test_missing_normalisation_is_named(trained, copy):
    edit(copy / "modules.json", lambda modules: modules[:2])
    with pytest.raises(ParityError, match="normalisation is missing"):
        prove(trained, copy)


def test_a_lost_prefix_is_named(trained, copy):
    edit(copy / "config_sentence_transformers.json", lambda config: config | {"prompts": {"document": "passage: "}})
    with pytest.raises(ParityError, match="the prompt 'query' is '', the encoder's prefix is 'query: '"):
        prove(trained, copy)


def test_another_limit_is_named(trained, copy):
    edit(copy / "sentence_bert_config.json", lambda config: config | {"max_seq_length": 10})
    with pytest.raises(ParityError, match="the longest text is 10 tokens, the encoder's 48"):
        prove(trained, copy)


def test_other_weights_are_named(trained, copy):
    weights = load_file(copy / "model.safetensors")
    name = next(name for name in weights if name.endswith("query.weight"))
    weights[name] = weights[name] + 0.5 * torch.randn(weights[name].shape, generator=torch.Generator().manual_seed(0))
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ParityError, match=r"1 weight tensors differ, first .*query\.weight"):
        prove(trained, copy)


def test_another_tokenizer_is_named(trained, copy):
    edit(copy / "tokenizer.json", lambda state: state | {"normalizer": None})
    encoder = BiEncoder.load(trained, dtype="float32")
    with pytest.raises(ParityError, match="the tokenizers differ in normalizer"):
        parity_report(encoder, copy, queries=[QueryText("THE RIVER", "LAKE")], passages=[], config=ExportConfig())


def test_a_module_folder_that_was_not_copied_is_named(trained, copy):
    shutil.rmtree(copy / "1_Pooling")
    with pytest.raises(ParityError, match=r"modules\.json lists Pooling, but .*1_Pooling/config\.json is missing"):
        prove(trained, copy)


@pytest.mark.parametrize("name", ["modules.json", "tokenizer.json", "config_sentence_transformers.json"])
def test_a_file_that_was_not_copied_is_named(copy, name):
    (copy / name).unlink()
    with pytest.raises(ParityError, match=f"{name} is missing"):
        check_folder(copy)


def test_weights_that_were_not_copied_are_named(copy):
    (copy / "model.safetensors").unlink()
    with pytest.raises(ParityError, match="there are no weights"):
        check_folder(copy)


def test_an_encoder_in_another_type_is_refused(trained, exported):
    encoder = BiEncoder.load(trained, dtype="bfloat16")
    with pytest.raises(ValueError, match="load the encoder with dtype='float32'"):
        parity_report(encoder, exported, queries=[], passages=[], config=ExportConfig())


def test_the_card_says_how_to_feed_the_encoder(exported):
    card = (exported / "README.md").read_text()
    assert 'queries = model.encode_query([f"{question} [SEP] {query}"])' in card
    assert 'passages = model.encode_document([f"{title}\\n{text}"])' in card
    for row in (
        "| base | a random BERT |",
        "| dimension | 32 |",
        "| pooling | mean |",
        "| normalisation | unit length, inside the model |",
        '| query prefix | `"query: "` |',
        '| passage prefix | `"passage: "` |',
        "| longest query | 32 tokens, prefix and special tokens included |",
        "| longest passage | 48 tokens, likewise; the rest is cut |",
    ):
        assert row in card
    assert "do not use them as thresholds" in card
    assert "It was not measured." in card
    assert card.rstrip().endswith("Apache-2.0, made from nothing.")


def test_the_cards_code_gives_the_encoders_vectors(trained, exported):
    card = (exported / "README.md").read_text()
    code = card.partition("```python\n")[2].partition("```")[0].replace("path/to/this/folder", str(exported))
    given = {"question": "where does the river end", "query": "which lake", "title": "Title 1", "text": TEXTS[1]}
    exec(code, given)
    encoder = BiEncoder.load(trained)
    np.testing.assert_allclose(given["queries"], encoder.encode_queries(QUERIES[:1]), atol=1e-5)
    np.testing.assert_allclose(given["passages"], encoder.encode_passages([PASSAGES["p1"]]), atol=1e-5)


def test_the_cards_scores_carry_their_intervals(trained):
    card = Card(
        name="r",
        base="b",
        temperature=0.01,
        data=("12 questions of a made-up world",),
        settings={"epochs": "2"},
        scores=(ScoreLine("this one", "R@5", 0.8123, 0.75, 0.87),),
        scores_note="Measured on 12 held-out questions.",
    )
    text = render_card(card, BiEncoder.load(trained))
    assert "| this one | R@5 | 0.812 | 0.750 to 0.870 |" in text
    assert "- 12 questions of a made-up world\n" in text
    assert "| epochs | 2 |" in text
    assert "Measured on 12 held-out questions." in text
    assert "Not known to the program" in text


def test_the_card_of_a_query_only_encoder_shows_no_question(trained, tmp_path):
    encoder = BiEncoder.load(trained)
    alone = BiEncoder(encoder.model, encoder.settings.model_copy(update={"query_format": "query"}))
    text = render_card(CARD, alone)
    assert 'model.encode_query([f"{query}"])' in text
    assert "[SEP]" not in text


def test_a_lora_adapter_is_merged_into_the_weights(trained, tmp_path):
    peft = pytest.importorskip("peft")
    encoder = BiEncoder.load(trained)
    before = encoder.encode_passages(list(PASSAGES.values()))
    lora = peft.LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False)  # random, not zero
    encoder.model.add_adapter(lora)
    encoder.save(tmp_path / "adapted")
    adapted = encoder.encode_passages(list(PASSAGES.values()))
    assert np.abs(adapted - before).max() > 1e-3
    export_checkpoint(
        tmp_path / "adapted", tmp_path / "plain", card=CARD, texts=ParityTexts(), config=ExportConfig(), progress=silent
    )
    assert not list((tmp_path / "plain").glob("adapter*"))
    found = BiEncoder.load(tmp_path / "plain").encode_passages(list(PASSAGES.values()))
    np.testing.assert_allclose(found, adapted, atol=1e-5)
