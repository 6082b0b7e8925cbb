import pytest

from agentic_r.corpus.gold import answer_bearing, gold_kind, resolve_gold
from agentic_r.corpus.passages import split_document
from agentic_r.corpus.store import make_corpus
from agentic_r.errors import DataError
from agentic_r.types import Document, Evidence, Passage, Question


def corpus_of(*documents, max_words=4):
    pieces = [piece for document in documents for piece in split_document(document, max_words=max_words)]
    return make_corpus({item.id: item for item in documents}, {item.id: item for item in pieces}, fingerprint="f")


def question(*evidence, answers=("x",), identifier="q"):
    return Question(identifier, "q?", tuple(answers), "train", "", tuple(evidence))


# passages of d: "One two three four." "Five six seven eight." "Nine ten."
CORPUS = corpus_of(
    Document("d", "D", "One two three four.\nFive six seven eight.\nNine ten."), Document("e", "E", "Other text.")
)


@pytest.mark.parametrize(
    ("evidence", "gold"),
    [
        (Evidence("d"), ("d#0", "d#1", "d#2")),
        (Evidence("d", "six seven"), ("d#1",)),
        (Evidence("d", "  six\nseven "), ("d#1",)),
        (Evidence("d", "four. Five"), ("d#0", "d#1")),
        (Evidence("d", "", 3), ("d#2",)),
        (Evidence("e"), ("e#0",)),
        (Evidence("d#1"), ("d#1",)),
    ],
)
def test_evidence_becomes_gold_passages(evidence, gold):
    [resolved] = resolve_gold([question(evidence)], CORPUS)
    assert resolved.gold_passages == gold


def test_resolved_evidence_names_documents_and_holds_the_text_of_lines():
    [resolved] = resolve_gold([question(Evidence("d", "", 2), Evidence("d#2"), Evidence("e"))], CORPUS)
    assert resolved.evidence == (Evidence("d", "Five six seven eight."), Evidence("d", "Nine ten."), Evidence("e"))
    assert resolved.gold_documents == ("d", "e")


def test_a_text_that_occurs_twice_makes_both_passages_gold():
    corpus = corpus_of(Document("d", "", "a key b c\n\nd key e f"))
    assert resolve_gold([question(Evidence("d", "key"))], corpus)[0].gold_passages == ("d#0", "d#1")


def test_a_question_without_evidence_has_no_gold_passages():
    assert resolve_gold([question()], CORPUS)[0].gold_passages == ()


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (Evidence("nowhere"), "question 'q': its evidence names 'nowhere'"),
        (Evidence("d", "absent words"), "question 'q': document 'd' does not contain 'absent words'"),
        (Evidence("d", "", 9), r"line 9 of document 'd' is past its end \(3 lines\)"),
    ],
)
def test_evidence_that_is_not_in_the_corpus_is_an_error_naming_the_question(evidence, text):
    with pytest.raises(DataError, match=text):
        resolve_gold([question(evidence)], CORPUS)


def test_a_blank_line_is_no_evidence():
    with pytest.raises(DataError, match="line 2 of document 'd' is blank"):
        resolve_gold([question(Evidence("d", "", 2))], corpus_of(Document("d", "", "a\n\nb")))


def test_answer_bearing_passages_hold_an_answer_as_whole_tokens():
    passages = [
        Passage("p1", "d", "", "He was born in Paris, France."),
        Passage("p2", "d", "", "Parisian life."),
        Passage("p3", "d", "", "Yes, the capital is PARIS."),
        Passage("p4", "d", "", "In 1990–1995 he lived in the City of Light"),
    ]
    asked = [
        question(answers=("Paris", "The City of Light"), identifier="a"),
        question(answers=("yes",), identifier="b"),
        question(answers=("1995", "Rome"), identifier="c"),
    ]
    assert answer_bearing(asked, passages) == {"a": ("p1", "p3", "p4"), "b": (), "c": ("p4",)}


def test_the_kind_of_gold_says_mixed_where_only_some_questions_have_it():
    resolved = resolve_gold([question(Evidence("e")), question(identifier="r")], CORPUS)
    assert gold_kind(resolved[:1]) == "gold"
    assert gold_kind(resolved[1:]) == "answer-bearing"
    assert gold_kind(resolved) == "mixed"
