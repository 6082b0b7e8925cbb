"""Things, facts and documents of a world.

Plants on purpose what makes agentic retrieval hard: paraphrase (passages never use the asked word),
look-alikes (passages that do, and do not answer), homonyms (two people of one name, told apart by their
trade, which only the question is sure to hold) and depth (long documents with the evidence far down).
"""

import random
from dataclasses import dataclass

from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.types import Document, Evidence, Split
from agentic_r.world.language import (
    AGES,
    FILLERS,
    FIRST_NAMES,
    LOOKALIKES,
    RELATIONS,
    SECOND_NAMES,
    TRADES,
    Kind,
    Relation,
)

__all__ = ["MAX_DOCUMENTS", "Fact", "Thing", "World", "build_world"]

_HOMONYM_SHARE = 0.3  # of people: enough that the question must be read, few enough that a bridge is unique
_PAIR_CHANCE = _HOMONYM_SHARE / (2 - _HOMONYM_SHARE)  # of two people in a row to share a name: makes the share above
_LONG_SHARE = 0.05  # of documents: their facts stand below forty lines of filler
_LOOKALIKES_A_DOCUMENT = 1
_LONG_FILLERS = 80
_HELDOUT_EVERY = 4  # one thing in four (a pair of homonyms counts once) belongs to held-out questions
_KIND_SHARES: tuple[tuple[Kind, float], ...] = (("person", 0.6), ("town", 0.22), ("guild", 0.18))
MAX_DOCUMENTS = len(FIRST_NAMES) * len(SECOND_NAMES)  # one name each


@dataclass(frozen=True, slots=True)
class Thing:
    """An entity with a document of its own. ``trade`` is empty for towns and guilds.

    The world is made of two parts, one for each ``split``: no fact of one names a thing of the other.
    """

    id: str
    name: str
    kind: Kind
    trade: str = ""
    has_homonym: bool = False
    split: Split = "train"

    @property
    def mention(self) -> str:
        """How a question names it: with the trade, which tells homonyms apart."""
        return f"the {self.trade} {self.name}" if self.trade else self.name


@dataclass(frozen=True, slots=True)
class Fact:
    """``subject`` stands in ``relation`` to ``value`` (a thing's id, or a number); ``sentence`` says so."""

    subject: str
    relation: Relation
    value: str
    sentence: str

    @property
    def evidence(self) -> Evidence:
        """Where the fact is written."""
        return Evidence(document_id=self.subject, text=self.sentence)


@dataclass(frozen=True, slots=True)
class World:
    """Everything that is true, and the documents that say it."""

    seed: int
    things: dict[str, Thing]
    facts: dict[tuple[str, str], Fact]
    documents: tuple[Document, ...]

    def value_name(self, fact: Fact) -> str:
        """Return the fact's object as it is written: a name or a number."""
        return self.things[fact.value].name if fact.value in self.things else fact.value


def build_world(seed: int, *, num_documents: int) -> World:
    """Make a world.

    Args:
        seed: Decides everything.
        num_documents: One document a thing.

    Raises:
        ValueError: more things than there are names, or so few that a fact has nothing to point at.
    """
    generator = random.Random(generator_seed(seed, "world"))
    things = _things(generator, num_documents)
    facts = _facts(generator, things)
    documents = tuple(_document(generator, thing, things, facts) for thing in things.values())
    return World(seed=seed, things=things, facts=facts, documents=documents)


def _things(generator: random.Random, count: int) -> dict[str, Thing]:
    if count > MAX_DOCUMENTS:
        raise ValueError(f"{count} things, but only {MAX_DOCUMENTS} names")
    names = iter(_names(generator, count))
    kinds = [kind for kind, share in _KIND_SHARES for _ in range(round(share * count))]
    kinds = (kinds + ["person"] * count)[:count]
    things: dict[str, Thing] = {}
    units = 0
    while len(things) < count:
        number = len(things)
        kind = kinds[number]
        name = next(names)
        units += 1
        split: Split = "heldout" if units % _HELDOUT_EVERY == 0 else "train"
        if kind != "person":
            things[f"{kind}-{number:05d}"] = Thing(id=f"{kind}-{number:05d}", name=name, kind=kind, split=split)
            continue
        is_next_person = number + 1 < count and kinds[number + 1] == "person"
        are_two = is_next_person and generator.random() < _PAIR_CHANCE
        for offset, trade in enumerate(generator.sample(list(TRADES), 2 if are_two else 1)):
            key = f"person-{number + offset:05d}"
            things[key] = Thing(id=key, name=name, kind="person", trade=trade, has_homonym=are_two, split=split)
    return things


def _names(generator: random.Random, count: int) -> list[str]:
    pairs = generator.sample(range(MAX_DOCUMENTS), count)
    return [f"{FIRST_NAMES[pair // len(SECOND_NAMES)]} {SECOND_NAMES[pair % len(SECOND_NAMES)]}" for pair in pairs]


def _facts(generator: random.Random, things: dict[str, Thing]) -> dict[tuple[str, str], Fact]:
    targets: dict[tuple[Split, Kind], list[str]] = {}
    for thing in things.values():
        targets.setdefault((thing.split, thing.kind), []).append(thing.id)
    for part, members in targets.items():  # a bridge is never a homonym, but in worlds too small for anything else
        unique = [key for key in members if not things[key].has_homonym]
        targets[part] = unique if len(unique) > 1 else members
    return {
        (thing.id, relation.word): _fact(generator, thing, relation, things, targets)
        for thing in things.values()
        for relation in RELATIONS
        if relation.subject == thing.kind
    }


def _fact(
    generator: random.Random,
    thing: Thing,
    relation: Relation,
    things: dict[str, Thing],
    targets: dict[tuple[Split, Kind], list[str]],
) -> Fact:
    if relation.object == "number":
        value = written = generator.choice(AGES)
    else:
        others = [key for key in targets.get((thing.split, relation.object), []) if things[key].name != thing.name]
        if not others:
            raise ValueError(f"{len(things)} documents are too few for a world: no {relation.object} is left to name")
        value = generator.choice(others)
        written = things[value].name
    sentence = f"{thing.name}{_marker(generator, thing)} {generator.choice(relation.phrases)} {written} ."
    return Fact(thing.id, relation, value, sentence)


def _marker(generator: random.Random, thing: Thing) -> str:
    if not thing.trade:
        return ""
    return f" {generator.choice((f'the {thing.trade}', *TRADES[thing.trade]))}"


def _document(
    generator: random.Random, thing: Thing, things: dict[str, Thing], facts: dict[tuple[str, str], Fact]
) -> Document:
    own = [relation for relation in RELATIONS if relation.subject == thing.kind]
    paragraphs = [f"{facts[thing.id, relation.word].sentence} {generator.choice(FILLERS)}" for relation in own]
    for relation in generator.sample(own, _LOOKALIKES_A_DOCUMENT):
        other = things[generator.choice(list(things))].name
        pattern = generator.choice(LOOKALIKES)
        line = pattern.format(relation=relation.word, subject=thing.mention, other=other)
        paragraphs.append(f"{line} {generator.choice(FILLERS)}")
    generator.shuffle(paragraphs)
    if generator.random() < _LONG_SHARE:
        filler = [" ".join(generator.sample(FILLERS, 2)) for _ in range(_LONG_FILLERS // 2)]
        paragraphs = filler + paragraphs
    return Document(id=thing.id, title=thing.name, text="\n\n".join(paragraphs) + "\n")
