"""The tiny world, its demonstrations and the tiny prompt, in the tiny tokenizer."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from fakes import FakeRetriever
from tiny_models import language_model, random_llama

from agentic_r.agent.demonstrations import demonstration_trajectories
from agentic_r.config import AgentConfig
from agentic_r.llm.tiny import tiny_tokenizer
from agentic_r.types import Evidence, Passage
from agentic_r.world.build import build_world
from agentic_r.world.language import vocabulary
from agentic_r.world.questions import ask_questions, demonstrate


@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_that_the_tiny_agent_reads_or_writes_is_an_unknown_token(
    make_config: Callable[..., AgentConfig], seed: int
) -> None:
    world = build_world(seed, num_documents=120)
    asked = ask_questions(world, num_train=30, num_heldout=5)
    demonstrations = demonstrate(world, asked, count=120)
    passages, locate = {}, {}
    for document in world.documents:
        for number, paragraph in enumerate(document.text.strip().split("\n\n")):
            key = f"{document.id}#{number}"
            passages[key] = Passage(key, document.id, document.title, paragraph)
    for fact in world.facts.values():
        evidence = Evidence(fact.subject, fact.sentence)
        locate[evidence] = tuple(key for key, one in passages.items() if fact.sentence in one.text)
    tokenizer = tiny_tokenizer(vocabulary())
    questions = {
        item.question.id: replace(
            item.question, gold_passages=tuple(key for one in item.question.evidence for key in locate[one])
        )
        for item in asked
    }
    made = demonstration_trajectories(
        demonstrations,
        questions=questions,
        locate=locate,
        model=language_model(random_llama(len(tokenizer)), tokenizer),
        retriever=FakeRetriever(otherwise=list(passages)[::7]),
        passages=passages,
        config=make_config(max_turns=6, max_turn_tokens=60, passages_per_search=3),
        seed=0,
    )
    for script, done in zip(demonstrations, made, strict=True):
        assert done.status == "answered"
        assert done.answer == script.answer.lower()
        assert [turn.content for turn in done.turns[:-1]] == [step.query.lower() for step in script.steps]
        ids = [
            *done.prompt_ids,
            *(token for turn in done.turns for token in (*turn.sampled_ids, *turn.observation_ids)),
        ]
        assert tokenizer.unk_token_id not in ids
        for step, turn in zip(script.steps, done.turns, strict=False):
            shown = {item.passage_id for item in turn.passages}
            gold = set(questions[script.question_id].gold_passages)
            assert all(set(locate[one]) & shown for one in step.shows)
            assert step.shows or not gold & shown
