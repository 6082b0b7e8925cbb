"""Make the tiny language model that configs/quickstart.yaml starts its agent from.

    python data/tiny_language_model.py --out data/tiny/language_model

It learns to read: fresh worlds of other seeds than any run's, a few passages, then every fact in them (and some that
are not: "unknown") asked again and again, loss on the values only; and sequences of random words repeated, loss on
the repeats. Up to two of the passages are rivals, which say the same of something else: a good retriever shows such
passages side by side, and the right one must still be read. Then it learns the search protocol from demonstrations over
such worlds, good and lazy ones mixed, with made-up search results: a run's own warm start continues this on its own
world and retriever, and PPO chooses among the strategies. About half an hour on one core; the same seed and thread
count give the same weights.
"""

import argparse
import copy
import math
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from agentic_r.agent.demonstrations import demonstration_trajectories
from agentic_r.config import AgentConfig, TinyLanguageModel
from agentic_r.corpus.demonstrations import locate_evidence
from agentic_r.corpus.gold import resolve_gold
from agentic_r.corpus.passages import split_document
from agentic_r.corpus.store import Corpus, make_corpus
from agentic_r.llm.tiny import SPECIAL_TOKENS, new_tiny_model, tiny_tokenizer
from agentic_r.llm.transformers_model import TransformersModel
from agentic_r.ppo.batches import sampled_tokens
from agentic_r.types import QueryText, ScoredPassage, SearchResult
from agentic_r.world.build import Thing, World, build_world
from agentic_r.world.language import RELATIONS, vocabulary
from agentic_r.world.questions import ask_questions, demonstrate

IGNORED = -100
WIDTH = 220  # tokens a sequence
FIRST_WORLD_SEED = 1_000_000_000  # apart from the seeds that people give their runs
RIVALS = (0, 0, 1, 1, 2)  # passages in a reading lesson that say the same of something else, drawn evenly
SHARE_OF_LIKE_NAMES = 0.5  # of the protocol's search results


@dataclass(frozen=True)
class Lesson:
    """Token ids, and which of them count in the loss."""

    ids: list[int]
    counts: list[bool]


class Library:
    """A small world with its paragraphs by thing and its things by name."""

    def __init__(self, seed: int) -> None:
        self.world: World = build_world(seed, num_documents=40)
        self.paragraphs = {document.id: document.text.strip().split("\n\n")[-12:] for document in self.world.documents}
        self.namesakes: dict[str, list[Thing]] = defaultdict(list)
        for thing in self.world.things.values():
            self.namesakes[thing.name].append(thing)

    def rival(self, of: tuple[Thing, str], draw: random.Random) -> tuple[Thing, str]:
        """A paragraph that says the same of something else, often of a like name: good retrievers show these too."""
        thing, text = of
        facts = self.world.facts
        relations = [item.word for item in RELATIONS if item.subject == thing.kind]
        said = [word for word in relations if facts[thing.id, word].sentence in text] or [draw.choice(relations)]
        peers = [item for item in self.world.things.values() if item.kind == thing.kind and item.id != thing.id]
        alike = [item for item in peers if set(item.name.split()) & set(thing.name.split())]
        other = draw.choice(alike if alike and draw.random() < 0.6 else peers)
        told = [line for line in self.paragraphs[other.id] if facts[other.id, said[0]].sentence in line]
        return other, draw.choice(told or self.paragraphs[other.id])


class Teacher:
    """Makes lessons."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
        self.tokenizer = tokenizer
        self._random = random.Random(seed)
        self._seed = seed
        self._libraries = [Library(FIRST_WORLD_SEED + seed * 100_000 + number) for number in range(60)]
        self._num_libraries = 60

    def renew_a_library(self) -> None:
        """Replace the oldest world, so that no name pairing is seen for long."""
        self._libraries[self._num_libraries % 60] = Library(
            FIRST_WORLD_SEED + self._seed * 100_000 + self._num_libraries
        )
        self._num_libraries += 1

    def lessons(self, size: int, *, share_of_repeats: float) -> list[Lesson]:
        """Return a batch of both kinds."""
        return [self.repeat() if self._random.random() < share_of_repeats else self.reading() for _ in range(size)]

    def repeat(self) -> Lesson:
        """A run of random words, again and again; the first time does not count."""
        length = self._random.randrange(8, 40)
        words = [self._random.randrange(len(SPECIAL_TOKENS), len(self.tokenizer)) for _ in range(length)]
        ids = words * (160 // length)
        return Lesson(ids, [False] * length + [True] * (len(ids) - length))

    def reading(self) -> Lesson:
        """Passages about one name (and sometimes another), then what they say and do not say, twice over."""
        draw = self._random
        library = draw.choice(self._libraries)
        world = library.world
        family = library.namesakes[draw.choice(list(world.things.values())).name]
        pool = [(thing, text) for thing in family for text in library.paragraphs[thing.id]]
        shown = draw.sample(pool, min(draw.choice([2, 3, 3, 3]), len(pool)))
        stays, *others = draw.sample(range(len(shown)), len(shown))
        rivals = draw.choice(RIVALS)
        for place in others[:rivals]:
            shown[place] = library.rival(shown[stays], draw)
        if not rivals and draw.random() < 0.5:
            other = draw.choice(list(world.things.values()))
            shown[draw.randrange(len(shown))] = (other, draw.choice(library.paragraphs[other.id]))
        draw.shuffle(shown)
        text = "".join(f"Doc {rank}(Title: {thing.name}) {line} " for rank, (thing, line) in enumerate(shown, start=1))
        ids = self._encode(f"<information>{text}</information>")
        counts = [False] * len(ids)
        asked = self._asked(world, {thing.id: thing for thing in [*(thing for thing, _ in shown), *family]}, shown)
        for _ in range(2):
            draw.shuffle(asked)
            for claim, value in asked:
                head, tail = self._encode(f"{claim} :"), self._encode(f"{value} .")
                ids += head + tail
                counts += [False] * len(head) + [True] * len(tail)
        return Lesson(ids[:WIDTH], counts[:WIDTH])

    def _asked(self, world: World, things: dict[str, Thing], shown: list[tuple[Thing, str]]) -> list[tuple[str, str]]:
        known, unknown = [], []
        for thing in things.values():
            for relation in (item for item in RELATIONS if item.subject == thing.kind):
                fact = world.facts[thing.id, relation.word]
                claim = f"{relation.word} of {thing.mention}"
                if any(fact.sentence in text for _, text in shown):
                    known.append((claim, world.value_name(fact)))
                else:
                    unknown.append((claim, "unknown"))
        self._random.shuffle(unknown)
        return known + unknown[: max(1, len(known) // 2 + 1)]

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))


class ByName:
    """Stands for a retriever: passages of documents whose name the query holds, then of like names, then of any."""

    fingerprint = "by name"

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self._corpus = corpus
        self._random = random.Random(seed)

    def format_query(self, query: QueryText) -> str:
        """Return the query."""
        return query.query

    def search(self, queries: Sequence[QueryText], *, k: int) -> list[SearchResult]:
        """Return one result a query."""
        return [
            SearchResult(tuple(ScoredPassage(key, 0.0) for key in self._draw(item.query, k)), "ok") for item in queries
        ]

    def _draw(self, query: str, k: int) -> list[str]:
        asked = set(query.split())
        named = [item.id for item in self._corpus.passages.values() if item.title in query]
        alike = [item.id for item in self._corpus.passages.values() if asked & set(item.title.split())]
        self._random.shuffle(named)
        others = self._random.sample(alike, min(k, len(alike))) if self._random.random() < SHARE_OF_LIKE_NAMES else []
        others += self._random.sample(list(self._corpus.passages), k)
        return list(dict.fromkeys([*named, *others]))[:k]


def attempts(model: TransformersModel, config: AgentConfig, seed: int) -> list[Lesson]:
    """Demonstrations over one small world, as the environment would have shown them; own tokens count."""
    world = build_world(seed, num_documents=60)
    asked = ask_questions(world, num_train=24, num_heldout=1)
    documents = {item.id: item for item in world.documents}
    pieces = {piece.id: piece for item in world.documents for piece in split_document(item, max_words=30)}
    corpus = make_corpus(documents, pieces, fingerprint=str(seed))
    questions = {item.id: item for item in resolve_gold([one.question for one in asked], corpus)}
    demonstrations = demonstrate(world, asked, count=64)
    made = demonstration_trajectories(
        demonstrations,
        questions=questions,
        locate=locate_evidence(demonstrations, corpus),
        model=model,
        retriever=ByName(corpus, seed),
        passages=pieces,
        config=config,
        seed=seed,
    )
    return [Lesson(*sampled_tokens(item)) for item in made]


def collate(lessons: list[Lesson]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad to the longest; labels of what does not count are ignored."""
    width = max(len(lesson.ids) for lesson in lessons)
    ids = torch.zeros(len(lessons), width, dtype=torch.long)
    labels = torch.full((len(lessons), width), IGNORED)
    for row, lesson in enumerate(lessons):
        length = len(lesson.ids)
        ids[row, :length] = torch.tensor(lesson.ids)
        labels[row, :length] = torch.tensor(
            [token if counted else IGNORED for token, counted in zip(lesson.ids, lesson.counts, strict=True)]
        )
    return ids, labels


@torch.no_grad()
def accuracy(model: LlamaForCausalLM, lessons: list[Lesson]) -> float:
    """Share of counted tokens that the model finds most likely."""
    ids, labels = collate(lessons)
    guesses = model(input_ids=ids, attention_mask=(ids != 0).long()).logits[:, :-1].argmax(-1)
    counted = labels[:, 1:] != IGNORED
    return float((guesses == labels[:, 1:])[counted].float().mean())


def main() -> None:
    """Train, report, save."""
    parser = argparse.ArgumentParser(description="Make the tiny language model.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--steps", type=int, default=2600, help="of reading")
    parser.add_argument("--protocol-steps", type=int, default=800, help="of demonstrations, with some reading")
    parser.add_argument("--reader", type=Path, help="start from this finished reader instead of reading")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    tokenizer = tiny_tokenizer(vocabulary())
    model = new_tiny_model(len(tokenizer), seed=options.seed)
    teacher = Teacher(tokenizer, options.seed)
    if options.reader:
        model = LlamaForCausalLM.from_pretrained(options.reader, dtype=torch.float32)
    else:
        learn_to_read(model, teacher, options)
        save(model, tokenizer, options.out)
    learn_the_protocol(model, teacher, tokenizer, options)
    save(model, tokenizer, options.out)


def learn_to_read(model: LlamaForCausalLM, teacher: Teacher, options: argparse.Namespace) -> None:
    """The first part: words repeated, and passages read."""
    exam = [
        item
        for examiner in [Teacher(teacher.tokenizer, options.seed + 1)]
        for item in [examiner.reading() for _ in range(64)]
    ]

    def lessons(step: int) -> list[Lesson]:
        if step % 10 == 0:
            teacher.renew_a_library()
        return teacher.lessons(options.batch_size, share_of_repeats=0.3 if step < 200 else 0.1)

    train(model, lessons, options.steps, options.learning_rate, {"reading accuracy on unseen worlds": exam})


def learn_the_protocol(
    model: LlamaForCausalLM, teacher: Teacher, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace
) -> None:
    """The second part: three demonstrations for every reading."""
    draw = random.Random(options.seed)
    wrapped = TransformersModel(model, tokenizer, fingerprint="in training")
    config = AgentConfig(
        model=TinyLanguageModel(kind="tiny", path=options.out),
        prompt="tiny",
        max_observation_tokens=200,
        max_turn_tokens=32,
    )
    seeds = iter(range(2 * FIRST_WORLD_SEED + options.seed * 100_000, 3 * FIRST_WORLD_SEED))
    exam = attempts(wrapped, config, next(seeds))
    pool: list[Lesson] = []

    def lessons(step: int) -> list[Lesson]:
        del step
        count = options.batch_size * 3 // 4
        while len(pool) < 8 * options.batch_size:
            pool.extend(attempts(wrapped, config, next(seeds)))
        draw.shuffle(pool)
        taken = [pool.pop() for _ in range(count)]
        return taken + [teacher.reading() for _ in range(options.batch_size - count)]

    train(
        model, lessons, options.protocol_steps, options.learning_rate / 2, {"accuracy on unseen demonstrations": exam}
    )


def train(
    model: LlamaForCausalLM,
    lessons: Callable[[int], list[Lesson]],
    steps: int,
    learning_rate: float,
    exams: dict[str, list[Lesson]],
) -> None:
    """AdamW with warm-up and cosine decay to a tenth; says how it goes every hundred steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
    model.train()
    for step in range(steps):
        warmth = min(1.0, (step + 1) / 50) * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * warmth
        ids, labels = collate(lessons(step))
        logits = model(input_ids=ids, attention_mask=(ids != 0).long()).logits[:, :-1]
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=IGNORED)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0 or step == steps - 1:
            found = ", ".join(f"{name} {accuracy(model, exam):.3f}" for name, exam in exams.items())
            sys.stderr.write(f"step {step}  loss {loss.item():.3f}  {found}\n")


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the model in half precision, with its tokenizer."""
    copy.deepcopy(model).half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
