"""Names of retrievers, alone and fused, and the encoder that a system gets with them."""

from types import SimpleNamespace

import pytest

from agentic_r.errors import ConfigError
from agentic_r.loop.probing import Contenders


class Named:
    """A retriever, or an encoder, that is its name."""

    def __init__(self, name):
        self.fingerprint = name


class FakeParts:
    """A run of two iterations."""

    config = SimpleNamespace(iterations=2)

    def retriever(self, name):
        return Named(f"retriever {name}")

    def serving_encoder(self, name):
        return Named(f"encoder {name}")


@pytest.mark.parametrize(
    ("retriever", "encoder"),
    [
        ("iter-2", "encoder iter-2"),
        ("base", "encoder base query only"),
        ("base+question", "encoder base+question"),
        ("bm25+iter-2", "encoder iter-2"),
        ("iter-2+bm25", "encoder iter-2"),
        ("base+question+bm25", "encoder base+question"),
        ("bm25+base", "encoder base query only"),
    ],
)
def test_the_encoder_is_that_of_the_one_dense_part(retriever, encoder):
    for system in ("rarg+", "rarg++"):
        assert Contenders(FakeParts()).make(system, retriever).similarity.fingerprint == encoder


@pytest.mark.parametrize("system", ["rarg+", "rarg++"])
def test_two_encoders_or_none_are_refused_where_one_is_needed(system):
    for retriever in ("base+iter-2", "base+question+iter-2", "base+base+question"):
        with pytest.raises(ConfigError, match=r"needs one encoder, and .* has two; give one of bm25 and another"):
            Contenders(FakeParts()).make(system, retriever)
    with pytest.raises(ConfigError, match="needs an encoder, and bm25 has none"):
        Contenders(FakeParts()).make(system, "bm25")


def test_names_that_hold_the_sign_themselves_are_read_whole():
    contenders = Contenders(FakeParts())
    made = {name: contenders.make("rarg", name).ranker.fingerprint for name in ("base+question+iter-2", "iter-2+base")}
    assert made["base+question+iter-2"] == contenders.make("rarg", "iter-2+base+question").ranker.fingerprint
    assert made["base+question+iter-2"] != made["iter-2+base"]
    assert contenders.make("rarg", "base+question").ranker.fingerprint == "retriever base+question"


@pytest.mark.parametrize("name", ["bm25+bm25", "iter-2+iter-2", "base+question+base+question"])
def test_a_retriever_fused_with_itself_is_refused(name):
    for system in ("rarg", "rarg+"):
        with pytest.raises(ConfigError, match="fused with itself"):
            Contenders(FakeParts()).make(system, name)


@pytest.mark.parametrize("name", ["iter-3", "bm25+iter-3", "iter-3+bm25", "bm25+", "+bm25", "bm25+iter-1+iter-2"])
def test_an_unknown_name_lists_those_there_are(name):
    with pytest.raises(ConfigError, match=r"no such retriever; it has bm25, base, base\+question, iter-1, iter-2, or"):
        Contenders(FakeParts()).make("rarg+", name)
