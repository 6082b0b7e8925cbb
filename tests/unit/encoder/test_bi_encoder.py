"""The bi-encoder against plain sentence-transformers, its limits, counts and fingerprint."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError, DataError
from agentic_r.protocols import Encoder
from agentic_r.types import Passage, QueryText

PASSAGES = [Passage(str(n), "d", "title" if n % 2 else "", "brown fox " * (n % 9) + str(n)) for n in range(23)]
QUERIES = [QueryText("which city", "the author of the book " * (n % 4)) for n in range(11)]


def test_bi_encoder_is_an_encoder(encoder):
    checked: Encoder = encoder
    assert checked.encode_queries(QUERIES).dtype == np.float32


def test_vectors_equal_those_of_sentence_transformers(encoder):
    queries = [encoder.format_query(query).removeprefix("query: ") for query in QUERIES]
    passages = [encoder.format_passage(passage).removeprefix("passage: ") for passage in PASSAGES]
    assert np.abs(encoder.encode_queries(QUERIES) - encoder.model.encode_query(queries)).max() < 1e-6
    assert np.abs(encoder.encode_passages(PASSAGES) - encoder.model.encode_document(passages)).max() < 1e-6


def test_h19_saved_folder_gives_plain_sentence_transformers_the_same_vectors(make_encoder, tmp_path):
    encoder = make_encoder(max_query_tokens=16, max_passage_tokens=12)
    texts = ["quick fox", "西游记", "a", "fox " * 9, "fox " * 60, "query: fox", "🦊 fox", "river , dog !"]
    passages = [Passage(str(n), "d", "", text) for n, text in enumerate(texts)]
    encoder.save(tmp_path / "saved")
    modules = json.loads((tmp_path / "saved" / "modules.json").read_text())
    assert all((tmp_path / "saved" / module["path"]).is_dir() for module in modules)
    plain = SentenceTransformer(str(tmp_path / "saved"), local_files_only=True)
    vectors = plain.encode_document([text.strip() for text in texts])
    assert np.abs(vectors - encoder.encode_passages(passages)).max() < 1e-5
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5


def test_h19_limit_plus_fifty_gives_the_vector_of_its_cut_form(make_encoder):
    encoder = make_encoder(max_passage_tokens=12)
    # [CLS] passage : fox x 8 [SEP]: exactly 12 tokens when "passage", ":" and "fox" are one token each
    room = 12 - len(encoder.model.tokenizer("passage: ")["input_ids"])
    long, cut = encoder.encode_passages(
        [Passage("long", "d", "", "fox " * (room + 50)), Passage("cut", "d", "", "fox " * room)]
    )
    assert np.abs(long - cut).max() < 1e-6
    assert encoder.count_cut().passages_cut == ("long",)


@pytest.mark.parametrize("mode", ["mean", "cls", "lasttoken"])
def test_pooling_is_that_of_the_checkpoint(make_encoder, mode):
    encoder = make_encoder()
    encoder.model[1].pooling_mode = mode
    plain = encoder.model.encode_query(["which city", "fox"])
    assert np.abs(encoder.encode_queries([QueryText("which city"), QueryText("fox")]) - plain).max() < 1e-6


def test_left_padding_is_kept_for_tokenizers_that_pad_left(make_encoder):
    encoder = make_encoder()
    encoder.model.tokenizer.padding_side = "left"
    features = encoder.query_features([QueryText("fox"), QueryText("fox jumps over the dog")])
    assert features["attention_mask"][0].tolist()[0] == 0
    assert features["attention_mask"][0].tolist()[-1] == 1


def test_order_does_not_depend_on_length(encoder):
    alone = np.concatenate([encoder.encode_passages([passage]) for passage in PASSAGES])
    assert np.abs(encoder.encode_passages(PASSAGES) - alone).max() < 1e-6


def test_two_calls_give_the_same_bits(encoder):
    assert (encoder.encode_passages(PASSAGES) == encoder.encode_passages(PASSAGES)).all()


def test_equal_texts_of_a_call_have_equal_vectors(encoder):
    vectors = encoder.encode_passages([*PASSAGES, Passage("copy", "e", PASSAGES[3].title, PASSAGES[3].text)])
    assert (vectors[3] == vectors[-1]).all()


def test_nothing_to_encode_gives_no_rows_of_the_right_width(encoder):
    assert encoder.encode_queries([]).shape == (0, 16)
    assert encoder.encode_passages([]).shape == (0, 16)


def test_empty_texts_give_unit_vectors(encoder):
    vectors = encoder.encode_passages([Passage("a", "a", "", ""), Passage("b", "b", "", "\u200b")])
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5


def test_encoding_leaves_a_model_in_training_in_training(make_encoder):
    encoder = make_encoder()
    encoder.model.train()
    encoder.encode_queries(QUERIES)
    assert encoder.model.training


def test_query_and_passage_lengths_are_each_enforced(make_encoder):
    encoder = make_encoder(max_query_tokens=10, max_passage_tokens=20)
    assert encoder.query_features([QueryText("fox " * 50)])["input_ids"].shape[1] == 10
    assert encoder.passage_features([Passage("p", "d", "", "fox " * 50)])["input_ids"].shape[1] == 20


def test_both_cuts_are_counted(make_encoder):
    encoder = make_encoder(max_query_tokens=12)
    encoder.encode_queries([QueryText("fox"), QueryText("fox", "dog " * 30), QueryText("fox " * 30, "dog")])
    counts = encoder.count_cut()
    assert (counts.queries, counts.questions_shortened, counts.queries_cut) == (3, 2, 1)  # one question was left out


def test_separator_in_user_text_does_not_reach_the_tokens(make_encoder):
    encoder = make_encoder()
    separator = encoder.model.tokenizer.sep_token_id
    ids = encoder.query_features([QueryText("fox [SEP] dog", "lazy [SEP][CLS] river")])["input_ids"][0].tolist()
    assert ids.count(separator) == 2  # ours and the final one
    ids = encoder.passage_features([Passage("p", "d", "a [SEP] b", "c [SEP] d")])["input_ids"][0].tolist()
    assert ids.count(separator) == 1
    assert encoder.count_cut().texts_with_control_tokens == 2


def test_measure_passages_names_what_is_lost(make_encoder):
    encoder = make_encoder(max_passage_tokens=12)
    own = len(encoder.model.tokenizer("passage: ")["input_ids"])
    measured = encoder.measure_passages([Passage("a", "d", "", "fox"), Passage("b", "d", "", "fox " * 20)])
    assert measured.cut == ("b",)
    assert measured.num_tokens == (own + 1) + (own + 20)
    assert measured.num_tokens_lost == own + 20 - 12
    assert encoder.count_cut().passages == 0


words = st.lists(
    st.sampled_from(["fox", "dog", "river", "city", "西游记", "zebra-42", "unknownword", "!", "[SEP]"]), max_size=20
)


@settings(max_examples=60, deadline=None)
@given(query=words, question=words)
def test_tokens_of_the_query_are_all_present_if_they_fit(encoder, query, question):
    query, question = " ".join(query), " ".join(question)
    features = encoder.query_features([QueryText(query, question), QueryText(query)])
    both, alone = (
        [i for i in row if i != encoder.model.tokenizer.pad_token_id] for row in features["input_ids"].tolist()
    )
    assert len(both) <= encoder.settings.max_query_tokens
    prefix = encoder.model.tokenizer("query: ", add_special_tokens=False)["input_ids"]
    assert both[1 : 1 + len(prefix)] == prefix
    own = alone[1 + len(prefix) :]
    assert both[len(both) - len(own) :] == own


def test_fingerprint_survives_saving_and_loading(encoder, tmp_path):
    encoder.save(tmp_path / "saved")
    assert BiEncoder.load(tmp_path / "saved").fingerprint == encoder.fingerprint


def test_encoding_does_not_change_the_fingerprint(encoder):
    before = encoder.fingerprint
    encoder.encode_passages([Passage("p", "d", "", "fox " * 80)])
    assert encoder.fingerprint == before


@pytest.mark.parametrize(
    "changes",
    [
        {"query_prefix": "q: "},
        {"passage_prefix": ""},
        {"max_query_tokens": 23},
        {"max_passage_tokens": 31},
        {"query_format": "query"},
        {"seed": 1},
    ],
)
def test_h7_anything_that_changes_vectors_changes_the_fingerprint(make_encoder, changes):
    assert make_encoder().fingerprint == make_encoder().fingerprint
    assert make_encoder(**changes).fingerprint != make_encoder().fingerprint


def test_h7_pooling_and_one_changed_weight_change_the_fingerprint(make_encoder):
    encoder = make_encoder()
    before = encoder.fingerprint
    encoder.model[1].pooling_mode = "cls"
    pooled = encoder.fingerprint
    with torch.no_grad():
        next(encoder.model.parameters()).view(-1)[0] += 1e-3
    assert len({before, pooled, encoder.fingerprint}) == 3


def test_bert_has_no_pooler(encoder):
    assert not [name for name, _ in encoder.model.named_parameters() if "pooler" in name]


def test_broken_weights_are_an_error_and_not_a_vector(make_encoder):
    encoder = make_encoder()
    with torch.no_grad():
        next(encoder.model.parameters()).fill_(float("nan"))
    with pytest.raises(DataError, match=r"2 of 2 vectors are not finite, first for 'a'"):
        encoder.encode_passages([Passage("a", "d", "", "x"), Passage("b", "d", "", "y")])


def test_length_beyond_the_models_positions_is_a_users_error(make_encoder):
    with pytest.raises(ConfigError, match=r"max_passage_tokens 65 is more than the model's 64 positions"):
        make_encoder(max_passage_tokens=65)


def test_length_without_room_for_text_is_a_users_error(make_encoder):
    with pytest.raises(ConfigError, match=r"max_query_tokens 4 has no room after prefix 'query: '"):
        make_encoder(max_query_tokens=4)


def test_tokenizer_without_separator_needs_the_plain_query_format(make_encoder):
    with pytest.raises(ConfigError, match="query_format: query"):
        make_encoder(separator=None)
    assert make_encoder(separator=None, query_format="query").format_query(QueryText("a", "b")) == "query: a"


def test_folder_that_is_no_saved_encoder_is_a_users_error(tmp_path):
    with pytest.raises(ConfigError, match=r"no agentic_r\.json"):
        BiEncoder.load(tmp_path)


def test_settings_with_an_unknown_key_name_it(encoder, tmp_path):
    encoder.save(tmp_path)
    settings_file = tmp_path / "agentic_r.json"
    settings_file.write_text(json.dumps({**json.loads(settings_file.read_text()), "pool": "mean"}))
    with pytest.raises(ConfigError, match=r"agentic_r\.json: pool"):
        BiEncoder.load(tmp_path)


def test_bfloat16_is_how_it_encodes_and_float32_how_it_trains(make_encoder, tmp_path):
    make_encoder(dtype="bfloat16").save(tmp_path / "saved")
    encodes, trains = BiEncoder.load(tmp_path / "saved"), BiEncoder.load(tmp_path / "saved", dtype="float32")
    assert encodes.model.dtype == torch.bfloat16
    assert trains.model.dtype == torch.float32
    vectors = encodes.encode_queries(QUERIES)
    assert vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-6


def test_an_encoder_whose_weights_are_fixed_gives_the_same_vectors(make_encoder, monkeypatch):
    monkeypatch.setattr("agentic_r.onednn.is_quicker_here", lambda: True)
    monkeypatch.setattr("agentic_r.onednn._MIN_WIDTH", 16)
    encoder = make_encoder()
    before = encoder.encode_queries(QUERIES), encoder.encode_passages(PASSAGES), encoder.fingerprint
    encoder.fix_weights()
    assert any(type(vars(layer).get("forward")).__name__ == "_LaidOut" for layer in encoder.model.modules())
    assert np.abs(encoder.encode_queries(QUERIES) - before[0]).max() < 1e-5
    assert np.abs(encoder.encode_passages(PASSAGES) - before[1]).max() < 1e-5
    assert encoder.fingerprint == before[2]
