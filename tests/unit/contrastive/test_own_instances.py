"""A user's own instances in every shape, and what is refused."""

import json

import pytest

from agentic_r.contrastive.own_instances import read_instances, read_pool
from agentic_r.errors import DataError
from agentic_r.types import Passage

POOL = {name: Passage(name, name, "", f"Text of {name}.") for name in ("d1", "d2", "d3")}


@pytest.fixture
def read(tmp_path):
    def read(*rows, pool=POOL):
        file = tmp_path / "instances.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return read_instances(file, pool=pool)

    return read


def texts(found, instance):
    positive, *negatives = (found.passages[name].text for name in (instance.positive, *instance.negatives))
    return positive, negatives


SHAPES = {
    "ours": {"query": "who?", "positives": ["A b."], "negatives": ["C d.", "E f."]},
    "flagembedding": {"query": "who?", "pos": ["A b."], "neg": ["C d.", "E f."], "prompt": "Represent this"},
    "triplet": {"anchor": "who?", "positive": "A b.", "negative_2": "E f.", "negative_1": "C d."},
    "tevatron": {
        "query_id": "7",
        "query": "who?",
        "positive_passages": [{"docid": "a", "title": "T", "text": "A b."}],
        "negative_passages": [{"docid": "c", "text": "C d."}, {"docid": "e", "text": "E f."}],
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_query_and_texts(read, shape):
    found = read(SHAPES[shape])
    (instance,) = found.instances
    assert (instance.query, instance.question) == ("who?", "")
    assert texts(found, instance) == ("A b.", ["C d.", "E f."])


def test_ids_of_the_corpus_are_passages_of_it_as_tevatron_and_the_loop_write_them(read):
    (tevatron,) = read(
        {"query_id": 3, "query_text": "who?", "positive_document_ids": ["d1"], "negative_document_ids": ["d2", "d3"]}
    ).instances
    assert (tevatron.id, tevatron.positive, tevatron.negatives) == ("3", "d1", ("d2", "d3"))
    (loop,) = read(
        {
            "id": "i",
            "question_id": "q",
            "question": "Who was it?",
            "query": "who?",
            "positive": "d1",
            "negatives": ["d2"],
            "other_positives": ["d3"],
            "history": [],
            "relevance": [0.9, 0.1],
        }
    ).instances
    assert (loop.question_id, loop.question, loop.other_positives) == ("q", "Who was it?", ("d3",))
    assert loop.relevance == (0.9, 0.1)


def test_several_positives_become_one_instance_each_with_the_others_masked(read):
    one, two = read({"id": "x", "query": "who?", "positives": ["d1", "d2"], "negatives": ["d3"]}).instances
    assert (one.id, one.positive, one.other_positives) == ("x-0", "d1", ("d2",))
    assert (two.id, two.positive, two.other_positives) == ("x-1", "d2", ("d1",))
    assert one.question_id == two.question_id


def test_rows_of_one_query_know_each_others_positives_and_have_one_question_id(read):
    found = read(
        {"id": "x", "query": "who?", "positive": "d1", "negatives": ["d3"]},
        {"id": "y", "query": "who?", "positive": "d2"},
        {"id": "z", "query": "who?", "question": "Other?", "positive": "d3"},
    )
    one, two, other = found.instances
    assert (one.other_positives, two.other_positives, other.other_positives) == (("d2",), ("d1",), ())
    assert one.question_id == two.question_id != other.question_id
    assert found.num_rows_of_earlier_queries == 1


def test_queries_of_one_question_have_its_id_where_none_is_given_and_the_given_one_else(read):
    one, two, named = read(
        {"query": "a?", "question": "Who?", "positive": "d1"},
        {"query": "b?", "question": "Who?", "positive": "d2"},
        {"query": "c?", "question": "Who?", "question_id": "q", "positive": "d2"},
    ).instances
    assert one.question_id == two.question_id != ""
    assert named.question_id == "q"


def test_history_is_read_and_makes_another_query(read):
    plain, later = read(
        {"query": "who?", "positive": "d1"}, {"query": "who?", "history": ["where?", "when?"], "positive": "d2"}
    ).instances
    assert (plain.history, later.history) == ((), ("where?", "when?"))
    assert later.other_positives == ()


def test_one_id_with_two_queries_is_refused_with_both_lines(read):
    with pytest.raises(DataError, match=r"jsonl:2: id 'x' has another query than at .*jsonl:1"):
        read({"id": "x", "query": "who?", "pos": ["d1"]}, {"id": "x", "query": "when?", "pos": ["d2"]})


def test_one_id_with_one_query_in_two_rows_is_numbered(read):
    found = read({"id": "x", "query": "who?", "pos": ["d1"]}, {"id": "x", "query": "who?", "pos": ["d2"]})
    assert [item.id for item in found.instances] == ["x-0", "x-1"]


def test_a_number_made_for_a_positive_may_not_be_another_rows_id(read):
    with pytest.raises(DataError, match=r"id 'x-0' is also that of a positive of another row"):
        read({"id": "x", "query": "who?", "pos": ["d1", "d2"]}, {"id": "x-0", "query": "when?", "pos": ["d2"]})


def test_a_text_needs_no_space_where_its_script_has_none(read):
    found = read({"query": "谁?", "pos": ["北京是中国的首都。"], "neg": ["上海"]})
    assert texts(found, found.instances[0]) == ("北京是中国的首都。", ["上海"])


def test_scores_between_0_and_1_are_relevance_of_each_positive_with_the_negatives(read):
    row = {"query": "who?", "pos": ["d1", "d2"], "neg": ["d3"], "pos_scores": [1.0, 0.8], "neg_scores": [0.25]}
    assert [item.relevance for item in read(row).instances] == [(1.0, 0.25), (0.8, 0.25)]


def test_the_same_text_is_the_same_passage_and_an_object_keeps_its_title(read):
    found = read({"query": "a", "pos": ["X y."], "neg": ["Z z."]}, {"query": "b", "pos": ["Z z."], "neg": ["X y."]})
    assert found.instances[0].positive == found.instances[1].negatives[0]
    titled = read(SHAPES["tevatron"])
    assert titled.passages["a"] == Passage("a", "a", "T", "A b.")


def test_pairs_have_no_negatives(read):
    assert read({"anchor": "who?", "positive": "A b."}).instances[0].negatives == ()


def test_fields_of_no_use_are_counted_by_name(read):
    found = read(SHAPES["flagembedding"], SHAPES["triplet"])
    assert dict(found.unused_fields) == {"prompt": 1}
    assert found.num_rows == 2


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"pos": ["A b."]}, r"instances\.jsonl:1: no query \(expected one of query,"),
        ({"query": "who?"}, r":1: no positive \(expected one of positives,"),
        ({"query": "who?", "pos": ["d9"]}, r":1: no such passage \('d9' is no id of the corpus"),
        ({"query": "who?", "positive_document_ids": ["doc 17"]}, r":1: no such passage \('doc 17' is no id of the c"),
        ({"query": "who?", "pos": ["d1"], "history": "where?"}, r":1: history is no list of strings"),
        ({"query": "who?", "pos": ["d1"], "history": [3]}, r":1: history is no list of strings"),
        ({"query": "who?", "pos": [["A b."]]}, ":1: passage is neither text nor object"),
        ({"query": "who?", "pos": ["d1"], "neg": ["d2"], "pos_scores": [1]}, ":1: relevance does not fit"),
        ({"query": "who?", "pos": ["d1"], "pos_scores": [7.5]}, ":1: relevance is not within 0 and 1"),
        ({"query": "w", "pos": [{"docid": "d1", "text": "Other text."}]}, ":1: passage has two texts"),
        ({"query": " ", "pos": ["A b."]}, r":1: empty query \(field 'query'\); correct the row"),
        ({"query": "w", "pos": [" "]}, ":1: empty passage"),
        ({"query": "w", "pos": [{"text": " ", "title": ""}]}, ":1: empty passage"),
        ({"query": "w \ud83d", "pos": ["A b."]}, ":1: not Unicode"),
        ({"query": "w", "pos": ["A b \ud83d"]}, ":1: not Unicode"),
        ({"query": "w", "pos": [{"text": "A \ud83d"}]}, ":1: not Unicode"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(read, row, says):
    with pytest.raises(DataError, match=says):
        read(row)


def test_an_empty_file_is_refused(read):
    with pytest.raises(DataError, match="no instance in it"):
        read()


def test_a_corpus_is_read_by_id_and_an_id_with_two_texts_is_refused(tmp_path):
    file = tmp_path / "corpus.jsonl"
    file.write_text('{"docid": 5, "document_text": "A b."}\n{"docid": 6, "title": "T", "text": "C d."}\n')
    assert read_pool(file) == {"5": Passage("5", "5", "", "A b."), "6": Passage("6", "6", "T", "C d.")}
    file.write_text('{"id": "5", "text": "A b."}\n{"id": "5", "text": "Other."}\n')
    with pytest.raises(DataError, match=r"corpus\.jsonl:2: id '5' stands here with another text"):
        read_pool(file)
