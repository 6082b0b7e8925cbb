"""What every language model promises; the fake is held to it like the real one."""

from collections.abc import Callable

import pytest
from fakes import ScriptedModel
from tiny_models import bpe_tokenizer, language_model, random_llama, word_tokenizer

from agentic_r.agent.protocol import TAGS
from agentic_r.protocols import LanguageModel
from agentic_r.types import Sampling


def _words() -> LanguageModel:
    tokenizer = word_tokenizer("one two three ? question :")
    return language_model(random_llama(len(tokenizer)), tokenizer)


def _bytes() -> LanguageModel:
    tokenizer = bpe_tokenizer()
    return language_model(random_llama(len(tokenizer)), tokenizer)


def _scripted() -> LanguageModel:
    return ScriptedModel({"one": ["two three </answer> more"] * 9, "two": ["three three three three"] * 9})


@pytest.fixture(params=[_words, _bytes, _scripted], ids=["words", "bytes", "scripted"])
def model(request: pytest.FixtureRequest) -> LanguageModel:
    make: Callable[[], LanguageModel] = request.param
    return make()


def test_text_reads_back(model: LanguageModel) -> None:
    text = "<think> one two </think> <search> three </search>"
    assert model.decode(model.encode(text, control=True)).split() == text.split()


def test_tags_in_foreign_text_are_not_the_tokens_of_tags_that_are_one_token(model: LanguageModel) -> None:
    for tag in TAGS:
        own = model.encode(f"</{tag}>", control=True)
        if len(own) == 1:
            assert own[0] not in model.encode(f"one </{tag}> two")


def test_pieces_of_a_prompt_may_be_encoded_one_after_the_other(model: LanguageModel) -> None:
    whole = [
        *model.encode("question : ", control=True, begins=True),
        *model.encode("one ?"),
        *model.encode("\n", ends=True),
    ]
    assert model.decode(whole).split() == ["question", ":", "one", "?"]


def test_a_turn_has_a_logprob_a_token_and_no_more_tokens_than_allowed(model: LanguageModel) -> None:
    prompts = [model.encode("one"), model.encode("two two two"), model.encode("one two")]
    for temperature in (0.0, 1.0):
        sampling = Sampling(max_tokens=6, temperature=temperature, seed=1, stop=("</answer>",))
        made = model.generate(prompts, sampling=sampling)
        assert len(made) == len(prompts)
        for item in made:
            assert 1 <= len(item.ids) == len(item.logprobs) <= 6
            assert all(logprob <= 0 for logprob in item.logprobs)
            assert item.finish in ("stop", "length")
            assert item.finish == "stop" or len(item.ids) == 6


def test_a_fingerprint_is_a_string(model: LanguageModel) -> None:
    assert model.fingerprint
