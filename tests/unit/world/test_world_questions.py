from collections import Counter

import pytest

from agentic_r.errors import ConfigError
from agentic_r.metrics.answers import exact_match
from agentic_r.types import Demonstration
from agentic_r.world.build import World, build_world
from agentic_r.world.language import FIRST_NAMES, SECOND_NAMES, vocabulary
from agentic_r.world.questions import Asked, ask_questions, demonstrate


@pytest.fixture(scope="module", params=(0, 1, 2))
def world(request: pytest.FixtureRequest) -> World:
    return build_world(request.param, num_documents=500)


@pytest.fixture(scope="module")
def asked(world: World) -> list[Asked]:
    return ask_questions(world, num_train=120, num_heldout=60)


@pytest.fixture(scope="module")
def demonstrations(world: World, asked: list[Asked]) -> list[Demonstration]:
    return demonstrate(world, asked, count=600)


def test_there_are_as_many_questions_of_each_split_as_asked_for(asked: list[Asked]) -> None:
    assert Counter(item.question.split for item in asked) == {"train": 120, "heldout": 60}
    assert len({item.question.id for item in asked}) == len({item.question.text for item in asked}) == 180


def test_splits_share_neither_subject_nor_bridge_nor_evidence(asked: list[Asked]) -> None:
    things = {"train": set(), "heldout": set()}
    evidence = {"train": set(), "heldout": set()}
    for item in asked:
        things[item.question.split] |= {hop.subject.id for hop in item.hops}
        evidence[item.question.split] |= set(item.question.evidence) | set(item.question.gold_documents)
    assert not things["train"] & things["heldout"]
    assert not evidence["train"] & evidence["heldout"]


def test_the_answer_stands_in_the_last_evidence_and_follows_from_the_facts(world: World, asked: list[Asked]) -> None:
    for item in asked:
        (answer,) = item.question.answers
        facts = [hop.fact for hop in item.hops]
        assert [fact.sentence for fact in facts] == [one.text for one in item.question.evidence]
        match item.question.kind:
            case "one_hop":
                assert answer == world.value_name(facts[0])
            case "two_hop":
                assert facts[0].value == facts[1].subject
                assert answer == world.value_name(facts[1])
            case "comparison":
                older = max(item.hops, key=lambda hop: int(hop.fact.value))
                assert answer == older.subject.name
                assert facts[0].value != facts[1].value


def test_a_question_names_people_with_their_trade_and_never_the_bridge(asked: list[Asked]) -> None:
    for item in asked:
        for hop in item.hops:
            assert (hop.subject.mention in item.question.text) is not hop.is_bridge
            assert not (hop.is_bridge and hop.subject.has_homonym)


def test_all_kinds_are_asked(asked: list[Asked]) -> None:
    kinds = Counter(item.question.kind for item in asked)
    assert set(kinds) == {"one_hop", "two_hop", "comparison"}
    assert kinds["comparison"] < min(kinds["one_hop"], kinds["two_hop"])


def test_demonstrations_are_of_training_questions_only(asked: list[Asked], demonstrations: list[Demonstration]) -> None:
    training = {item.question.id for item in asked if item.question.split == "train"}
    assert {item.question_id for item in demonstrations} == training
    assert len({item.id for item in demonstrations}) == 600


def test_demonstrations_mix_good_and_every_lazy_strategy(demonstrations: list[Demonstration]) -> None:
    used = Counter(strategy for item in demonstrations for strategy in item.strategy.split(", "))
    assert set(used) == {"good", "one hop", "short query", "no second search", "gave up"}
    assert min(used.values()) >= 20


def test_a_good_demonstration_is_right_and_one_that_stops_early_is_not(
    asked: list[Asked], demonstrations: list[Demonstration]
) -> None:
    questions = {item.question.id: item.question for item in asked}
    for item in demonstrations:
        right = exact_match(item.answer, questions[item.question_id].answers)
        if item.strategy == "good":
            assert right
        if "gave up" in item.strategy:
            assert item.answer == "unknown"
        if "one hop" in item.strategy:
            assert not right


def test_a_thought_repeats_what_was_shown_and_says_unknown_after_a_miss(demonstrations: list[Demonstration]) -> None:
    for item in demonstrations:
        for step in item.steps:
            value = step.thought.partition(" : ")[2]
            if step.shows:
                assert f" {value} ." in step.shows[0].text
            else:
                assert value == "unknown"


def test_a_short_query_leaves_the_trade_out_and_a_second_one_uses_other_words(
    demonstrations: list[Demonstration],
) -> None:
    for item in demonstrations:
        if item.strategy == "short query":
            assert any(" the " not in step.query for step in item.steps)
        for first, second in zip(item.steps, item.steps[1:], strict=False):
            if not first.shows:
                assert second.query != first.query


def test_every_word_is_in_the_vocabulary(world: World, asked: list[Asked], demonstrations: list[Demonstration]) -> None:
    known = set(vocabulary())
    texts = [item.text for item in world.documents] + [item.title for item in world.documents]
    texts += [item.question.text for item in asked] + [answer for item in asked for answer in item.question.answers]
    texts += [item.answer for item in demonstrations]
    texts += [text for item in demonstrations for step in item.steps for text in (step.query, step.thought)]
    assert {word for text in texts for word in text.lower().split()} <= known


def test_the_vocabulary_is_the_same_each_time_and_has_no_word_twice() -> None:
    words = vocabulary()
    assert words == vocabulary()
    assert len(words) == len(set(words))
    assert all(name.lower() in words for name in (*FIRST_NAMES, *SECOND_NAMES))


def test_the_same_seed_asks_the_same_and_another_seed_does_not() -> None:
    def all_of(seed: int) -> tuple[list[Asked], list[Demonstration]]:
        world = build_world(seed, num_documents=100)
        asked = ask_questions(world, num_train=10, num_heldout=5)
        return asked, demonstrate(world, asked, count=20)

    assert all_of(1) == all_of(1)
    assert all_of(1) != all_of(2)


def test_a_world_too_small_for_its_questions_is_the_users_mistake_and_names_the_settings() -> None:
    world = build_world(0, num_documents=40)
    with pytest.raises(ConfigError, match=r"data\.documents 40 is too small for data\.train_questions 4000") as caught:
        ask_questions(world, num_train=4000, num_heldout=150)
    assert "\n" not in str(caught.value)
