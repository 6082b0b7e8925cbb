"""Paragraphs, previews, fused rankings, similarity, pattern words: the pieces that systems are made of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_r.config import OpeningConfig
from agentic_r.errors import ToolFailure
from agentic_r.types import Document, Passage, QueryText, ScoredDocument
from agentic_r.workspace.fusion import FusedRanker
from agentic_r.workspace.opening import show_opening
from agentic_r.workspace.paragraphs import split_paragraphs
from agentic_r.workspace.preview import Previewer
from agentic_r.workspace.rerank import pattern_words
from agentic_r.workspace.similarity import EncoderSimilarity
from agentic_r.workspace.store import create_store

SMALL = OpeningConfig(min_paragraph=10, target_paragraph=15, max_paragraph=20)


class Fixed:
    def __init__(self, *ids):
        self.ids = ids
        self.fingerprint = " ".join(ids)

    def rank_documents(self, query, *, k):
        return [ScoredDocument(key, -float(place)) for place, key in enumerate(self.ids)][:k]


class FakeEncoder:
    """A text's vector: its share of a, and of everything else."""

    fingerprint = "fake"

    def __init__(self):
        self.batches = []
        self.asked = []

    def _vectors(self, texts):
        pairs = np.array([[text.count("a"), len(text) - text.count("a")] for text in texts], dtype=np.float32)
        return pairs / np.linalg.norm(pairs, axis=1, keepdims=True)

    def encode_queries(self, queries):
        self.asked += queries
        return self._vectors([query.query for query in queries])

    def encode_passages(self, passages):
        self.batches.append([item.text for item in passages])
        return self._vectors([item.text for item in passages])


def texts(lines, config=SMALL):
    return [paragraph.text for paragraph in split_paragraphs(lines, config)]


def test_small_blocks_are_put_together_up_to_the_target():
    # 6 + 6 = 12 is below the target of 15; the third would make 18
    assert texts(["aaa bb", "", "ccc dd", "", "eee ff gg h"]) == ["aaa bb\nccc dd", "eee ff gg h"]


def test_a_tail_that_is_too_small_goes_to_the_paragraph_before_where_it_fits():
    assert texts(["a" * 12, "", "bbb"]) == ["a" * 12 + "\nbbb"]
    assert texts(["a" * 19, "", "bbb"]) == ["a" * 19, "bbb"]


def test_a_long_line_is_cut_at_white_space():
    assert texts(["one two three four five six"]) == ["one two three four ", "five six"]


def test_paragraphs_know_their_lines():
    (first, second) = split_paragraphs(["", "a" * 12, "b" * 8, "", "c" * 11], SMALL)
    assert [(part.number, part.start, part.end) for part in first.parts] == [(2, 0, 12), (3, 0, 8)]
    assert [part.number for part in second.parts] == [5]


@given(st.lists(st.text("ab \r字", max_size=50), max_size=8))
def test_paragraphs_hold_every_line_that_is_not_blank_once_and_stay_below_the_maximum(lines):
    paragraphs = split_paragraphs(lines, SMALL)
    found = {}
    for paragraph in paragraphs:
        assert sum(len(part.text) for part in paragraph.parts) <= SMALL.max_paragraph
        for part in paragraph.parts:
            assert lines[part.number - 1][part.start : part.end] == part.text
            found[part.number] = found.get(part.number, "") + part.text
    expected = {number: line.removesuffix("\r") for number, line in enumerate(lines, start=1)}
    assert found == {number: line for number, line in expected.items() if line.strip()}


def test_the_preview_is_the_line_with_most_different_terms():
    previewer = Previewer("who founded Marlow abbey")
    assert previewer.best_line(["", "Marlow Marlow Marlow", "The abbey was founded", "x"]) == 2
    assert previewer.best_line(["", "nothing", "of it"]) == 1  # the first line that is not blank
    assert previewer.best_line([]) == 0
    assert previewer.excerpt("x" * 50 + " marlow " + "y" * 50, max_characters=10).text == "…x marlow y…"


def test_a_query_without_terms_previews_the_beginning():
    previewer = Previewer("who is it")
    assert previewer.best_line(["one", "two"]) == 0
    assert previewer.excerpt("abcdef", max_characters=3).text == "abc…"


def test_reciprocal_ranks_are_added():
    fused = FusedRanker([Fixed("a", "b"), Fixed("b", "c")]).rank_documents(QueryText("x"), k=3)
    # b is second and first, a first, c second
    assert [(item.document_id, item.value) for item in fused] == [
        ("b", pytest.approx(1 / 62 + 1 / 61)),
        ("a", pytest.approx(1 / 61)),
        ("c", pytest.approx(1 / 62)),
    ]


@given(st.permutations(["one", "two", "three"]))
def test_the_order_of_fused_rankers_does_not_matter(order):
    rankers = {"one": Fixed("a", "b", "c"), "two": Fixed("c", "d"), "three": Fixed("b", "a", "d")}
    made = [FusedRanker([rankers[name] for name in names]) for names in (order, ["one", "two", "three"])]
    assert made[0].rank_documents(QueryText("x"), k=4) == made[1].rank_documents(QueryText("x"), k=4)
    assert made[0].fingerprint == made[1].fingerprint


def test_a_text_is_encoded_once():
    encoder = FakeEncoder()
    similarity = EncoderSimilarity(encoder)
    passages = [Passage("1", "d", "", "aab"), Passage("2", "d", "", "bbb"), Passage("3", "e", "", "aab")]
    first = similarity.scores(QueryText("a"), passages)
    assert encoder.batches == [["aab", "bbb"]]
    # cosine of (2, 1) and of (0, 3) with (1, 0)
    assert first == [pytest.approx(2 / 5**0.5, abs=1e-6), 0.0, first[0]]
    similarity.scores(QueryText("b"), [*passages, Passage("4", "d", "", "a")])
    assert encoder.batches[1:] == [["a"]]
    assert similarity.num_encoded == 3
    assert similarity.scores(QueryText("a"), []) == []


def test_a_title_is_part_of_what_is_remembered():
    encoder = FakeEncoder()
    EncoderSimilarity(encoder).scores(QueryText("a"), [Passage("1", "d", "T", "a"), Passage("2", "d", "U", "a")])
    assert [len(batch) for batch in encoder.batches] == [2]


def test_a_baseline_is_asked_the_query_alone():
    encoder = FakeEncoder()
    EncoderSimilarity(encoder, query_alone=True).scores(QueryText("a", "question"), [Passage("1", "d", "", "a")])
    assert encoder.asked == [QueryText("a")]


def test_an_encoder_that_runs_out_of_memory_is_a_tool_failure():
    class Broken(FakeEncoder):
        def encode_passages(self, passages):
            raise RuntimeError("CUDA out of memory")

    with pytest.raises(ToolFailure, match="RuntimeError: CUDA out of memory"):
        EncoderSimilarity(Broken()).scores(QueryText("a"), [Passage("1", "d", "", "a")])


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"founded|Marlow\b", ("founded", "Marlow")),
        (r"\bw000[0-9]{2}\s+harbour.*\d+", ("w000", "harbour")),
        (r"(?i)caf\x{e9}|öster\p{Lu}by", ("öster",)),
        (r"[A-Z]\w+", ()),
        (r"西游记\d", ("西游", "游记")),
        (r"Bezug\.(?:nahme)?", ("Bezug", "nahme")),
    ],
)
def test_the_words_of_a_pattern_are_those_it_spells_out_in_any_script(pattern, words):
    assert pattern_words(pattern) == words


def test_the_opening_reads_no_more_than_its_limit_and_says_so(tmp_path):
    store = create_store(
        tmp_path, [Document("big", "B", ("b" * 99 + "\n\n") * 1600), Document("late", "L", "aaaaaaaaaaaa\n")]
    )
    shown = show_opening(
        store,
        EncoderSimilarity(FakeEncoder()),
        QueryText("a"),
        ["big", "late"],
        config=OpeningConfig(),
        num_paragraphs=1,
        max_characters=2000,
    )
    # 1,600 lines of 99 characters are 158,400; the second document would go beyond 160,000 only with 1,601 more
    assert shown.text.endswith("2 of 2 documents read")
    assert shown.text.startswith(f"{store.name('late')}, lines 1-1:\naaaa")


def test_a_paragraph_that_does_not_fit_does_not_end_the_opening(tmp_path):
    store = create_store(tmp_path, [Document("long", "L", "a" * 400 + "\n"), Document("short", "S", "ab\n")])
    shown = show_opening(
        store,
        EncoderSimilarity(FakeEncoder()),
        QueryText("a"),
        ["long", "short"],
        config=OpeningConfig(),
        num_paragraphs=2,
        max_characters=200,
    )
    assert shown.text.splitlines()[1:] == ["ab", "shown 1 of 2 paragraphs, 2 of 2 documents read"]
    assert [span.document_id for span in shown.spans] == ["short"]
