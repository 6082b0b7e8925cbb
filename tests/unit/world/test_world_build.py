import re
from collections import Counter, defaultdict

import pytest

from agentic_r.config import TinyWorldData
from agentic_r.world.build import MAX_DOCUMENTS, World, build_world
from agentic_r.world.language import LOOKALIKES, RELATIONS, TRADES

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module", params=SEEDS)
def world(request: pytest.FixtureRequest) -> World:
    return build_world(request.param, num_documents=400)


def paragraphs(world: World, key: str) -> list[str]:
    document = next(item for item in world.documents if item.id == key)
    return [paragraph for paragraph in document.text.split("\n\n") if paragraph.strip()]


def test_there_is_one_document_a_thing_with_its_name_as_title(world: World) -> None:
    assert len(world.documents) == len(world.things) == 400
    assert all(item.title == world.things[item.id].name for item in world.documents)


def test_every_fact_stands_in_its_subjects_document_once(world: World) -> None:
    texts = {item.id: item.text for item in world.documents}
    assert all(texts[fact.subject].count(fact.sentence) == 1 for fact in world.facts.values())


def test_an_answering_paragraph_never_has_the_asked_word_and_names_subject_and_value(world: World) -> None:
    for (key, word), fact in world.facts.items():
        (answering,) = (paragraph for paragraph in paragraphs(world, key) if fact.sentence in paragraph)
        assert word not in answering.lower().split()
        assert fact.sentence.startswith(world.things[key].name)
        assert world.value_name(fact) in fact.sentence


def test_every_document_holds_a_look_alike_with_the_asked_word_and_mention_that_does_not_answer(world: World) -> None:
    words = {relation.word for relation in RELATIONS}
    fixed = [re.escape(pattern.split("{relation}")[0]) for pattern in LOOKALIKES]
    for thing in list(world.things.values())[:100]:
        found = [line for line in paragraphs(world, thing.id) if re.match("|".join(fixed), line)]
        assert found
        for line in found:
            (word,) = words & set(line.split())
            assert f"the {word} of {thing.mention} " in line
            assert world.facts[thing.id, word].sentence not in line


def test_homonyms_come_in_pairs_that_only_their_trade_tells_apart(world: World) -> None:
    by_name = defaultdict(list)
    for thing in world.things.values():
        by_name[thing.name].append(thing)
    for things in by_name.values():
        if len(things) == 1:
            assert not things[0].has_homonym
        else:
            first, second = things
            assert first.kind == second.kind == "person"
            assert first.has_homonym
            assert second.has_homonym
            assert first.trade != second.trade
    share = sum(thing.has_homonym for thing in world.things.values()) / sum(
        thing.kind == "person" for thing in world.things.values()
    )
    assert 0.25 < share < 0.55


def test_a_persons_sentences_name_the_trade_or_allude_to_it(world: World) -> None:
    for (key, _), fact in world.facts.items():
        thing = world.things[key]
        if thing.trade:
            marks = (f"the {thing.trade}", *TRADES[thing.trade])
            assert any(fact.sentence.startswith(f"{thing.name} {mark} ") for mark in marks)


def test_a_value_is_never_a_homonym_and_never_its_subject(world: World) -> None:
    for fact in world.facts.values():
        if fact.value in world.things:
            assert not world.things[fact.value].has_homonym
            assert fact.value != fact.subject


def test_some_documents_are_long_with_their_facts_far_down(world: World) -> None:
    long = [item for item in world.documents if item.text.count("\n\n") > 40]
    assert 0.04 < len(long) / len(world.documents) < 0.2
    for document in long:
        first = min(document.text.index(f.sentence) for (key, _), f in world.facts.items() if key == document.id)
        assert first > len(document.text) / 2


def test_the_same_seed_makes_the_same_world_and_another_seed_another() -> None:
    assert build_world(3, num_documents=60) == build_world(3, num_documents=60)
    assert build_world(3, num_documents=60).documents != build_world(4, num_documents=60).documents


def test_kinds_are_shared_out_as_meant() -> None:
    kinds = Counter(thing.kind for thing in build_world(0, num_documents=1000).things.values())
    assert kinds == {"person": 600, "town": 220, "guild": 180}


def test_the_smallest_world_that_the_configuration_allows_can_be_built() -> None:
    smallest = TinyWorldData(kind="tiny_world", documents=40)
    for seed in range(20):
        assert len(build_world(seed, num_documents=smallest.documents).documents) == 40


def test_a_world_too_small_or_too_large_is_a_callers_bug() -> None:
    with pytest.raises(ValueError, match="2 documents are too few for a world: no person is left to name"):
        build_world(0, num_documents=2)
    with pytest.raises(ValueError, match="25601 things, but only 25600 names"):
        build_world(0, num_documents=MAX_DOCUMENTS + 1)


def test_the_configuration_allows_as_many_documents_as_there_are_names() -> None:
    assert TinyWorldData(kind="tiny_world", documents=MAX_DOCUMENTS).documents == MAX_DOCUMENTS
    with pytest.raises(ValueError, match="less than or equal to 25600"):
        TinyWorldData(kind="tiny_world", documents=MAX_DOCUMENTS + 1)
