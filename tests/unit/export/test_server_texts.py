"""Strings of the wire."""

import pytest
from served_world import SETTINGS

from agentic_r.encoder.text import query_text
from agentic_r.export.server.texts import read_passage, read_query, show_contents
from agentic_r.types import Passage, QueryText


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("old mill", QueryText("old mill")),
        ("who built it? [SEP] old mill", QueryText("old mill", "who built it?")),
        ("who[SEP]mill", QueryText("mill", "who")),
        ("who [SEP] built [SEP] mill", QueryText("mill", "who [SEP] built")),
        (" [SEP] mill", QueryText("mill")),
        ("who [SEP] ", QueryText("", "who")),
        ("", QueryText("")),
        ("who [sep] mill", QueryText("who [sep] mill")),
    ],
)
def test_the_last_separator_parts_question_and_query(text, query):
    assert read_query(text, SETTINGS) == query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("mill", QueryText("mill")),
        ("who [SEP] mill", QueryText("mill", "who")),
        ("who [SEP] town [SEP]old mill[SEP] mill", QueryText("mill", "who", ("town", "old mill"))),
        ("[SEP] town [SEP]  [SEP] mill", QueryText("mill", "", ("town",))),
    ],
)
def test_with_history_earlier_queries_stand_between_question_and_query(text, query):
    settings = SETTINGS.model_copy(update={"query_format": "history"})
    assert read_query(text, settings) == query
    if query.question:  # else nothing tells the first of the earlier queries from it
        assert read_query(query_text(query, settings).removeprefix(settings.query_prefix), settings) == query


def test_an_encoder_without_question_takes_the_text_as_it_is():
    for change in ({"query_format": "query"}, {"separator": None}):
        assert read_query("who [SEP] mill", SETTINGS.model_copy(update=change)) == QueryText("who [SEP] mill")


def test_contents_begin_with_the_quoted_title_on_a_line_of_its_own():
    assert show_contents(Passage("p", "d", "Old\nMill", "It turns.\nStill.")) == '"Old Mill"\nIt turns.\nStill.'
    assert show_contents(Passage("p", "d", "", "It turns.")) == '""\nIt turns.'  # else the text would be the title


def test_a_passage_s_text_is_kept():
    assert read_passage("Mill\nIt turns.").text == "Mill\nIt turns."
