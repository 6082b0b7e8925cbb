import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_r.workspace.ripgrep import find_ripgrep
from agentic_r.workspace.terms import any_of, content_terms


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Who founded the Marlow Institute in 1987?", ("founded", "Marlow", "Institute", "1987")),
        ("Which would have been there?", ()),
        ("PEP 8 style", ("8", "style")),
        ("Marlow marlow MARLOW", ("Marlow",)),
        ("who is Li Bo", ("Li", "Bo")),
        ("谁写了西游记", ("谁写", "写了", "了西", "西游", "游记")),
        ("字", ("字",)),
        ("snake_case café's", ("snake", "case", "café")),
        ("", ()),
    ],
)
def test_content_terms(query, terms):
    assert content_terms(query) == terms


def test_short_terms_are_found_as_whole_words_only():
    assert any_of(("Marlow", "8", "Li", "西游")) == r"Marlow|\b8\b|\bLi\b|西游"


@settings(max_examples=25, deadline=None)
@given(st.text(r"\.+*?()|[]{}^$#&-~<>/!='\":; a", min_size=4, max_size=8))
def test_every_term_is_searched_literally(term):
    command = [str(find_ripgrep().path), "--no-config", "-c", "-e", any_of((term,)), "-"]
    answer = subprocess.run(command, input=f"{term}\nnone of it\n".encode(), capture_output=True, check=False)
    assert answer.stdout == b"1\n"
