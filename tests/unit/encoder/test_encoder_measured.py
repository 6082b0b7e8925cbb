"""Encoding queries and passages together, with what was cut."""

import numpy as np

from agentic_r.types import Passage, QueryText

LONG = " ".join(["fox"] * 60)


def test_queries_and_passages_of_one_batch_have_the_vectors_that_they_have_alone(make_encoder):
    encoder = make_encoder()
    texts = [
        QueryText("fox", "which dog"),
        Passage("p", "d", "river", "the city"),
        QueryText(LONG),
        Passage("p", "d", "", LONG),
    ]
    found = encoder.encode_measured(texts)
    for row, text in enumerate(texts):
        alone = encoder.encode_queries([text]) if isinstance(text, QueryText) else encoder.encode_passages([text])
        np.testing.assert_allclose(found.vectors_BD[row], alone[0], atol=1e-6)


def test_what_is_over_the_limit_is_said_and_counted_up_to_the_limit(make_encoder):
    encoder = make_encoder()  # 24 tokens a query, 32 a passage
    found = encoder.encode_measured(
        [QueryText("fox"), QueryText("fox", LONG), QueryText(LONG), Passage("p", "d", "", LONG)]
    )
    assert found.cut == (False, True, True, True)
    # "query: fox" is [CLS] query : fox [SEP]
    assert found.num_tokens == (5, 24, 24, 32)


def test_a_server_that_encodes_for_ever_keeps_no_names(make_encoder):
    encoder = make_encoder()
    for number in range(3):
        encoder.encode_measured([Passage(f"p{number}", "d", "", LONG), QueryText(LONG)])
    assert (encoder.count_cut().passages_cut, encoder.count_cut().queries) == ((), 0)


def test_nothing_gives_no_vectors(make_encoder):
    encoder = make_encoder()
    assert encoder.encode_measured([]).vectors_BD.shape == (0, 16)


def test_a_string_is_encoded_as_it_stands_up_to_the_longer_limit(make_encoder):
    encoder = make_encoder()
    found = encoder.encode_measured(["query: which dog [SEP] fox", "passage: fox", LONG])
    np.testing.assert_allclose(
        found.vectors_BD[0], encoder.encode_queries([QueryText("fox", "which dog")])[0], atol=1e-6
    )
    np.testing.assert_allclose(found.vectors_BD[1], encoder.encode_passages([Passage("", "", "", "fox")])[0], atol=1e-6)
    assert (found.num_tokens[2], found.cut) == (32, (False, False, True))
