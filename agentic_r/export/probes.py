"""The texts on which an export is compared with its encoder, by kind, with the vectors that they must give.

Owns what is tried: short, long, at the limit, beyond it, empty, other scripts, emoji, one token, a question with its
query, with the prefix written by hand, without it, and the run's own queries and passages. How vectors are compared is
``parity.py``'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.checkpoint import fast_tokenizer
from agentic_r.export.artefacts import Side, encode_side
from agentic_r.protocols import Vectors
from agentic_r.types import Passage, QueryText

__all__ = ["BEYOND_LIMIT", "OF_THE_RUN", "Probe", "Probes", "collect_probes"]

BEYOND_LIMIT = 50  # words over the limit
OF_THE_RUN = "of the run"

_TEXTS = {
    "short": ("where does the river end",),
    "CJK": ("川はどこで終わりますか", "这条河在哪里结束", "강은 어디에서 끝나나요"),
    "emoji": ("🌊🏞️ river 👩‍🔬",),
    "one token": ("river", "7"),
    "empty": ("",),
}
_QUESTION = QueryText(query="which lake", question="where does the river end", history=("which river",))
_FILLERS = ("river", "water", "the", "a", "x", "1", "of", "in", "and", "7")  # those that are one token fill long texts


@dataclass(frozen=True, slots=True)
class Probe:
    """Texts of one kind, as one side, and the (N, D) vectors that the encoder gives them.

    A server may refuse what ``may_be_refused``; it may never give another vector.
    """

    kind: str
    side: Side
    texts: tuple[str, ...]
    expected: Vectors
    may_be_refused: bool = False


@dataclass(frozen=True, slots=True)
class Probes:
    """All probes; ``num_left_out`` real texts are longer than their side's limit, and not cut by the export there."""

    all: tuple[Probe, ...]
    num_left_out: int

    def of_the_run(self, side: Side) -> Probe | None:
        """Return the probe of the run's own texts of one side, where there is one."""
        return next((probe for probe in self.all if probe.kind == f"{side}, {OF_THE_RUN}"), None)


def collect_probes(encoder: BiEncoder, *, queries: Sequence[QueryText], passages: Sequence[Passage]) -> Probes:
    """Encode every kind of text.

    Args:
        encoder: What was trained.
        queries: Real queries of the run.
        passages: Real passages of the run.
    """
    made = _Maker(encoder)
    settings = encoder.settings
    query_lengths = made.fill.lengths(settings.query_prefix, settings.max_query_tokens)
    for kind, texts in (_TEXTS | query_lengths).items():
        made.add_queries(kind, [QueryText(query=text) for text in texts], may_be_refused=kind == "empty")
    passage_lengths = made.fill.lengths(settings.passage_prefix, settings.max_passage_tokens)
    for kind, texts in (_TEXTS | passage_lengths).items():
        made.add_passages(kind, [_passage(text) for text in texts], may_be_refused=kind == "empty")
    if encoder.settings.query_format != "query":
        made.add_queries("with its question", [_QUESTION])
    made.add_beyond_the_limit()
    made.add_prefixes_by_hand()
    if queries:
        made.add_queries(OF_THE_RUN, queries)
    fitting = [passage for passage in passages if made.fits(passage)]
    if fitting:
        made.add_passages(OF_THE_RUN, fitting)
    return Probes(tuple(made.probes), len(passages) - len(fitting))


class _Maker:
    def __init__(self, encoder: BiEncoder) -> None:
        self._encoder = encoder
        self._settings = encoder.settings
        self._limit = max(encoder.settings.max_query_tokens, encoder.settings.max_passage_tokens)
        self.fill = _Fill(fast_tokenizer(encoder.model))
        self.probes: list[Probe] = []

    def add_queries(self, kind: str, queries: Sequence[QueryText], *, may_be_refused: bool = False) -> None:
        """Give the export what the encoder's own format makes of a query: what is cut is the format's business."""
        texts = [self._encoder.format_query(query).removeprefix(self._settings.query_prefix) for query in queries]
        expected = self._encoder.encode_queries(queries)
        self.probes.append(Probe(f"query, {kind}", "query", tuple(texts), expected, may_be_refused))

    def add_passages(self, kind: str, passages: Sequence[Passage], *, may_be_refused: bool = False) -> None:
        texts = [self._passage_text(passage) for passage in passages]
        expected = self._encoder.encode_passages(passages)
        self.probes.append(Probe(f"passage, {kind}", "passage", tuple(texts), expected, may_be_refused))

    def add_beyond_the_limit(self) -> None:
        """Texts that the export itself must cut, at its one limit: the side that has this limit must agree.

        Needs a word that is one token: else where the cut falls differs for good reasons.
        """
        if not self.fill.is_exact:
            return
        kind, settings = f"limit + {BEYOND_LIMIT}", self._settings
        if settings.max_query_tokens == self._limit:
            words = self.fill.words_at(settings.query_prefix, self._limit)
            cut = self._encoder.encode_queries([QueryText(self.fill.text(words, of=words))])
            whole = self.fill.text(words + BEYOND_LIMIT, of=words)
            self.probes.append(Probe(f"query, {kind}", "query", (whole,), cut, may_be_refused=True))
        if settings.max_passage_tokens == self._limit:
            words = self.fill.words_at(settings.passage_prefix, self._limit)
            cut = self._encoder.encode_passages([_passage(self.fill.text(words, of=words))])
            whole = self.fill.text(words + BEYOND_LIMIT, of=words)
            self.probes.append(Probe(f"passage, {kind}", "passage", (whole,), cut, may_be_refused=True))

    def add_prefixes_by_hand(self) -> None:
        texts = _TEXTS["one token"]
        queries = self._encoder.encode_queries([QueryText(query=text) for text in texts])
        passages = self._encoder.encode_passages([_passage(text) for text in texts])
        bare = _TEXTS["short"] + _TEXTS["CJK"]
        for kind, written, expected in (
            ("query, prefix by hand", [self._settings.query_prefix + text for text in texts], queries),
            ("passage, prefix by hand", [self._settings.passage_prefix + text for text in texts], passages),
            ("without prefix", bare, encode_side(self._encoder.model, bare, "plain")),
        ):
            self.probes.append(Probe(kind, "plain", tuple(written), expected))

    def fits(self, passage: Passage) -> bool:
        """Whether encoder and export cut the passage at the same token, or not at all."""
        limit = self._settings.max_passage_tokens
        if limit == self._limit:
            return True
        text = self._encoder.format_passage(passage)
        return len(fast_tokenizer(self._encoder.model)(text)["input_ids"]) <= limit

    def _passage_text(self, passage: Passage) -> str:
        return self._encoder.format_passage(passage).removeprefix(self._settings.passage_prefix)


def _passage(text: str) -> Passage:
    return Passage(id=text, document_id="probe", title="", text=text)


class _Fill:
    """Texts of a wanted length, of words that are one token where there are such.

    Each word fills one stretch, so that a text cut elsewhere has lost a word and another direction; what stands beyond
    the limit begins with the first word again.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        sizes = {word: self._tokens_per_word(word) for word in _FILLERS}
        self._smallest = min(sizes.values())
        self._words = [word for word, size in sizes.items() if size == self._smallest]

    @property
    def is_exact(self) -> bool:
        """Whether one word is one token, so that a text has exactly the wanted length."""
        return self._smallest == 1

    def words_at(self, prefix: str, limit: int) -> int:
        """How many words fill a text to its limit of tokens."""
        with_one = len(self._tokenizer(f"{prefix}{self._words[0]}")["input_ids"])
        return max(1, 1 + (limit - with_one) // self._smallest)

    def lengths(self, prefix: str, limit: int) -> dict[str, tuple[str, ...]]:
        """Texts of half the limit, and at the limit."""
        words = self.words_at(prefix, limit)
        return {
            "long": (self.text(max(1, words // 2), of=words),),
            "at the limit": (self.text(words, of=words),),
        }

    def text(self, count: int, *, of: int) -> str:
        """Return the first ``count`` words of a text whose limit is ``of`` words."""
        kinds = len(self._words)
        return " ".join(self._words[number * kinds // of % kinds] for number in range(count))

    def _tokens_per_word(self, word: str) -> int:
        return len(self._tokenizer(f"{word} {word} {word}")["input_ids"]) - len(
            self._tokenizer(f"{word} {word}")["input_ids"]
        )
