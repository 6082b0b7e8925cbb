"""ONNX graphs of an export: their vectors, and how a broken one is named."""

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from tiny_export import CARD, PASSAGES, QUERIES, silent

from agentic_r.config import ExportConfig
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError, ParityError
from agentic_r.export.checkpoint import ParityTexts, export_checkpoint
from agentic_r.export.onnx_graph import ONNX_FILES, SENTENCES, TOKENS, write_onnx
from agentic_r.export.onnx_vectors import OnnxVectors
from agentic_r.export.parity import parity_report

CONFIG = ExportConfig(onnx=("fp32", "fp16", "int8"), dimensions=(16,))
ONLY_FP32 = ExportConfig(onnx=("fp32",))
TEXTS = ParityTexts(QUERIES, tuple(PASSAGES.values()))


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "retriever"
    export_checkpoint(trained, folder, card=CARD, texts=TEXTS, config=CONFIG, progress=silent)
    return folder


@pytest.fixture
def broken(exported, tmp_path) -> Path:
    """An export of its own, to be broken."""
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def prove(trained: Path, folder: Path, config: ExportConfig = ONLY_FP32):
    encoder = BiEncoder.load(trained, dtype="float32")
    return parity_report(encoder, folder, queries=QUERIES, passages=tuple(PASSAGES.values()), config=config)


def retrace(trained: Path, folder: Path, change) -> None:
    """Write the float32 graph again from a changed model."""
    encoder = BiEncoder.load(trained, dtype="float32")
    model = copy.deepcopy(encoder.model)
    change(model)
    encoder._model = model
    write_onnx(encoder, folder, precisions=("fp32",))


def test_h19_each_graph_is_within_its_tolerance(exported):
    report = json.loads((exported / "parity.json").read_text())
    found = {item["name"]: item for item in report["artefacts"]}
    assert list(found) == [
        "sentence-transformers",
        "onnx fp32",
        "onnx fp32, 16 dimensions",
        "onnx fp16",
        "onnx fp16, 16 dimensions",
        "onnx int8",
        "onnx int8, 16 dimensions",
    ]
    assert all(item["equal"] for item in found.values())
    assert found["onnx fp32"]["max_difference"] <= 1e-4
    assert found["onnx fp16"]["min_cosine"] > 0.999
    assert found["onnx int8"]["min_cosine"] > 0.95
    norms = [kind[key] for item in found.values() for kind in item["kinds"] for key in ("min_norm", "max_norm")]
    assert max(abs(norm - 1) for norm in norms) <= 1e-5


def test_pooling_and_norm_are_in_the_graph_and_both_axes_are_dynamic(exported):
    graph = onnx.load(exported / ONNX_FILES["fp32"]).graph
    shapes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output)
    }
    assert shapes == {
        "input_ids": ["batch", "tokens"],
        "attention_mask": ["batch", "tokens"],
        "token_embeddings": ["batch", "tokens", 32],
        "sentence_embedding": ["batch", 32],
        "sentence_embedding_16": ["batch", 16],
    }


def test_a_text_has_the_same_vector_alone_and_beside_a_longer_one(exported):
    vectors = OnnxVectors(exported, ONNX_FILES["fp32"], name="onnx")
    alone = vectors.encode(["the lake"], "query")
    beside = vectors.encode(["the river ends in the lake behind the hill", "the lake"], "query")
    np.testing.assert_allclose(beside[1], alone[0], atol=1e-6)


def test_shorter_vectors_are_the_start_of_the_whole_ones_at_norm_1(exported):
    whole = OnnxVectors(exported, ONNX_FILES["fp32"], name="onnx").encode(["the lake"], "passage")
    short = OnnxVectors(exported, ONNX_FILES["fp32"], name="onnx", dimension=16).encode(["the lake"], "passage")
    np.testing.assert_allclose(short[0], whole[0, :16] / np.linalg.norm(whole[0, :16]), atol=1e-6)


def test_wrong_pooling_in_the_graph_is_named(trained, broken):
    def pool_first_token(model) -> None:
        model[1] = Pooling(32, pooling_mode="cls")

    retrace(trained, broken, pool_first_token)
    with pytest.raises(ParityError, match=r"onnx fp32: .*pooling is cls, the encoder's is mean; export again"):
        prove(trained, broken)


def test_missing_normalisation_in_the_graph_is_named(trained, broken):
    def do_not_normalise(model) -> None:
        assert isinstance(model[2], Normalize)
        model[2] = torch.nn.Identity()

    retrace(trained, broken, do_not_normalise)
    with pytest.raises(ParityError, match=r"normalisation is missing: norms are [\d.]+ to [\d.]+ instead of 1"):
        prove(trained, broken)
    (cause,) = json.loads((broken / "parity.json").read_text())["artefacts"][1]["differences"]
    assert "pooling" not in cause


def test_a_graph_cut_before_pooling_is_named(trained, broken):
    path = broken / ONNX_FILES["fp32"]
    graph = onnx.load(path)
    for output in [item for item in graph.graph.output if item.name != TOKENS]:
        graph.graph.output.remove(output)
    onnx.save(graph, path)
    with pytest.raises(ParityError, match="the graph ends before pooling: it gives token_embeddings of rank 3"):
        prove(trained, broken)


def test_token_vectors_under_the_name_of_sentence_vectors_are_named(trained, broken):
    helper, ids, numbers = onnx.helper, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["input_ids"], ["numbers"], to=numbers),
            helper.make_node("Unsqueeze", ["numbers", "last"], [SENTENCES]),
        ],
        "a number a token",
        [helper.make_tensor_value_info(name, ids, ["batch", "tokens"]) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info(SENTENCES, numbers, ["batch", "tokens", 1])],
        [helper.make_tensor("last", ids, [1], [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, broken / ONNX_FILES["fp32"])
    with pytest.raises(ParityError, match=r"its sentence_embedding has rank 3 \(a vector a token, not one a text\)"):
        prove(trained, broken)


def test_a_lost_prefix_is_named_for_every_form(trained, broken):
    path = broken / "config_sentence_transformers.json"
    settings = json.loads(path.read_text())
    settings["prompts"] = {"query": "query: "}
    path.write_text(json.dumps(settings))
    with pytest.raises(ParityError, match="the prompt 'document' is '', the encoder's prefix is 'passage: '"):
        prove(trained, broken)
    graph = json.loads((broken / "parity.json").read_text())["artefacts"][1]
    assert graph["differences"] == ["the prefix 'passage: ' of passages is lost"]


def test_a_dimension_that_is_not_shorter_is_refused_before_anything_is_written(trained, tmp_path):
    config = ExportConfig(onnx=("fp32",), dimensions=(32,))
    with pytest.raises(ConfigError, match=r"export\.dimensions: 32 is not shorter than the encoder's 32"):
        export_checkpoint(trained, tmp_path / "retriever", card=CARD, texts=TEXTS, config=config, progress=silent)
    assert not any(tmp_path.iterdir())


def test_an_export_that_fails_its_proof_takes_no_earlier_ones_place(trained, tmp_path):
    folder = tmp_path / "retriever"
    export_checkpoint(trained, folder, card=CARD, texts=TEXTS, config=ExportConfig(), progress=silent)
    before = (folder / "parity.json").read_bytes()
    with pytest.raises(ParityError):
        export_checkpoint(
            trained, folder, card=CARD, texts=TEXTS, config=ExportConfig(max_norm_error=0.0), progress=silent
        )
    assert (folder / "parity.json").read_bytes() == before
    assert json.loads((tmp_path / "retriever.part" / "parity.json").read_text())["equal"] is False
