"""Questions over a world, and demonstrations that mix good and lazy strategies.

One hop, two hops (the bridge is never a homonym) and comparison. Held-out questions share no
thing's document with training questions, as subject, bridge or evidence.

Demonstrations say how an attempt goes: the queries, whether each search shows the evidence, what is
thought of it, the answer. Lazy ones answer a two-hop question after one hop, leave the trade out of the query,
or give up after a miss; good ones search again in other words.
"""

import random
from dataclasses import dataclass

from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.errors import ConfigError
from agentic_r.types import Demonstration, DemonstrationStep, Question, Split
from agentic_r.world.build import Fact, Thing, World
from agentic_r.world.language import RELATIONS

__all__ = ["Asked", "Hop", "ask_questions", "demonstrate"]

_KIND_SHARES = {"one_hop": 0.4, "two_hop": 0.5, "comparison": 0.1}
_MAX_TRIES = 2000  # to find a question that is new and keeps the splits apart
_LAZY_ONE_HOP = 0.55  # of two-hop demonstrations: stop at the bridge
_LAZY_QUERY = 0.6  # of queries about people: leave the trade out
_LAZY_MISS = 0.5  # of misses: answer at once instead of searching again
_MISS = 0.35  # of searches: the evidence is not shown


@dataclass(frozen=True, slots=True)
class Hop:
    """What one search has to find: a fact, asked with or without the subject's trade."""

    fact: Fact
    subject: Thing
    is_bridge: bool = False

    @property
    def mention(self) -> str:
        """How the agent can name the subject: the trade is known for what the question names only."""
        return self.subject.name if self.is_bridge else self.subject.mention


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the hops that answer it (the generator's knowledge; training never sees it)."""

    question: Question
    hops: tuple[Hop, ...]


def ask_questions(world: World, *, num_train: int, num_heldout: int) -> list[Asked]:
    """Make questions; training and held-out ones share no thing.

    Raises:
        ConfigError: the world is too small for so many that keep apart (only trying tells).
    """
    generator = random.Random(generator_seed(world.seed, "questions"))
    asked: list[Asked] = []
    texts: set[str] = set()
    heldout: list[Split] = ["heldout"]
    train: list[Split] = ["train"]
    wanted = heldout * num_heldout + train * num_train
    generator.shuffle(wanted)
    things = {
        split: [thing for thing in world.things.values() if thing.split == split] for split in ("train", "heldout")
    }
    for split in wanted:
        for _ in range(_MAX_TRIES):
            made = _ask(generator, world, things[split], f"{split}-{len(asked):05d}")
            if made.question.text not in texts:
                break
        else:
            raise ConfigError(
                f"data.documents {len(world.things)} is too small for data.train_questions {num_train} and "
                f"data.heldout_questions {num_heldout} that share nothing; raise it, or ask fewer questions"
            )
        texts.add(made.question.text)
        asked.append(made)
    return asked


def _ask(generator: random.Random, world: World, things: list[Thing], key: str) -> Asked:
    split = things[0].split
    kind = generator.choices(list(_KIND_SHARES), list(_KIND_SHARES.values()))[0]
    if kind == "comparison":
        return _comparison(generator, world, things, key)
    subject = generator.choice(things)
    relation = generator.choice([item for item in RELATIONS if item.subject == subject.kind])
    first = world.facts[subject.id, relation.word]
    hop = Hop(first, subject)
    if kind == "one_hop" or first.value not in world.things:
        text = f"What is the {relation.word} of {subject.mention} ?"
        return Asked(_question(key, text, world.value_name(first), split, "one_hop", (hop,)), (hop,))
    bridge = world.things[first.value]
    last = generator.choice([item for item in RELATIONS if item.subject == bridge.kind])
    text = f"What is the {last.word} of the {relation.word} of {subject.mention} ?"
    hops = (hop, Hop(world.facts[bridge.id, last.word], bridge, is_bridge=True))
    return Asked(_question(key, text, world.value_name(hops[-1].fact), split, "two_hop", hops), hops)


def _comparison(generator: random.Random, world: World, things: list[Thing], key: str) -> Asked:
    people = [thing for thing in things if thing.kind == "person"]
    for _ in range(_MAX_TRIES):
        pair = generator.sample(people, 2)
        hops = tuple(Hop(world.facts[thing.id, "age"], thing) for thing in pair)
        ages = [int(hop.fact.value) for hop in hops]
        if ages[0] != ages[1] and pair[0].name != pair[1].name:
            break
    else:
        raise ValueError(f"{len(world.things)} documents are too few: no two people differ in name and age")
    text = f"Who is older , {pair[0].mention} or {pair[1].mention} ?"
    return Asked(_question(key, text, pair[ages.index(max(ages))].name, things[0].split, "comparison", hops), hops)


def _question(key: str, text: str, answer: str, split: Split, kind: str, hops: tuple[Hop, ...]) -> Question:
    evidence = tuple(hop.fact.evidence for hop in hops)
    return Question(id=key, text=text, answers=(answer,), split=split, kind=kind, evidence=evidence)


def demonstrate(world: World, asked: list[Asked], *, count: int) -> list[Demonstration]:
    """Script ``count`` attempts at the training questions among ``asked``, good and lazy."""
    generator = random.Random(generator_seed(world.seed, "demonstrations"))
    training = [item for item in asked if item.question.split == "train"]
    return [
        _attempt(generator, world, training[number % len(training)], f"demonstration-{number:05d}")
        for number in range(count)
    ]


def _attempt(generator: random.Random, world: World, asked: Asked, key: str) -> Demonstration:
    steps: list[DemonstrationStep] = []
    strategies: list[str] = []
    hops = asked.hops
    if asked.question.kind == "two_hop" and generator.random() < _LAZY_ONE_HOP:
        hops, strategies = hops[:1], ["one hop"]
    known: list[str] = []
    for hop in hops:
        found, lazy = _search(generator, world, hop, steps)
        strategies += lazy
        if not found:
            return Demonstration(key, asked.question.id, tuple(steps), "unknown", ", ".join([*strategies, "gave up"]))
        known.append(world.value_name(hop.fact))
    answer = known[-1]
    if asked.question.kind == "comparison":
        answer = hops[known.index(max(known, key=int))].subject.name
    return Demonstration(key, asked.question.id, tuple(steps), answer, ", ".join(strategies) or "good")


def _search(generator: random.Random, world: World, hop: Hop, steps: list[DemonstrationStep]) -> tuple[bool, list[str]]:
    """Append the searches for one hop; return whether it was found, and the lazy strategies used."""
    short = hop.mention != hop.subject.name and generator.random() < _LAZY_QUERY
    asked = f"{hop.fact.relation.word} of {hop.mention}"
    lazy = ["short query"] if short else []
    query = f"{hop.fact.relation.word} of {hop.subject.name if short else hop.mention}"
    for _ in range(2):
        if generator.random() >= _MISS:
            thought = f"{asked} : {world.value_name(hop.fact)}"
            steps.append(DemonstrationStep(query=query, shows=(hop.fact.evidence,), thought=thought))
            return True, lazy
        steps.append(DemonstrationStep(query=query, shows=(), thought=f"{asked} : unknown"))
        if generator.random() < _LAZY_MISS:
            return False, [*lazy, "no second search"]
        query = f"{hop.subject.name} {generator.choice(hop.fact.relation.phrases)}"
    return False, lazy
