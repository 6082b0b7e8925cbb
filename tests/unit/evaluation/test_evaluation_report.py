import dataclasses
import re
from html.parser import HTMLParser

import pytest

from agentic_r.evaluation.report import render_report, write_report
from agentic_r.evaluation.report_parts import Attempt, Example, ExampleTurn, ReportInput, ShownPassage

VOID = {"meta", "link", "br", "img", "hr", "input"}
SECTIONS = ("result", "cross", "workspace", "training", "labels", "examples", "stages", "setup")


class Page(HTMLParser):
    """Collects tags, attributes and the text of each section; complains about tags that do not close."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.open = [], [], []
        self.section, self.text = "", dict.fromkeys(("", *SECTIONS), "")
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "section":
            self.section = dict(attrs)["id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "section":
            self.section = ""

    def handle_data(self, data):
        self.text[self.section] += data


@pytest.fixture(scope="module")
def page(full_report):
    return Page(render_report(full_report))


def empty_report(summary):
    bare = summary.model_copy(update={"rows": (), "cross": (), "comparisons": (), "peak_memory_bytes": None})
    return ReportInput(name="bare", summary=bare)


def test_the_page_has_every_section(page):
    ids = [value for tag, name, value in page.attributes if tag == "section" and name == "id"]
    assert tuple(ids) == SECTIONS
    links = {value for tag, name, value in page.attributes if tag == "a" and name == "href"}
    assert links == {f"#{section}" for section in SECTIONS}


def test_the_page_opens_offline(page, full_report):
    html = render_report(full_report)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert "://" not in html
    assert "@import" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


def test_the_headline_stands_first(page):
    assert "Iteration 2 finds more of the gold passages than base." in page.text[""]
    assert "recall@5 0.30 → 0.78" in page.text[""]


def test_values_stand_with_their_intervals(page):
    assert re.search(r"0\.65\s*\[0\.53-0\.78\]", page.text["result"])
    assert "not measured" in page.text["result"]  # BM25 has no agent


def test_counts_failures_time_and_memory_are_shown(page):
    text = " ".join(page.text["stages"].split())
    assert "12 min 5 s" in text
    assert "1.4 GB" in text
    assert "skipped: empty text 3" in text
    assert "failed: unparsed reply 4" in text
    assert "rollouts 2,560" in text


def test_configuration_and_versions_are_shown(page):
    assert "name: quickstart\nseed: 7" in page.text["setup"]
    assert "torch 2.13.0" in page.text["setup"]
    assert "faiss-cpu absent" in page.text["setup"]


def test_gaps_and_charts_without_values_are_said(page):
    assert "1 step without a value" in page.text["training"]
    assert "not measured" in page.text["training"]  # the chart without a series
    assert "40 questions; not measured: cited" in page.text["workspace"]


def test_examples_show_queries_passages_and_answers_as_text(page, full_report):
    text = page.text["examples"]
    assert "Who is the mayor of <b>Alderford</b>?" in text
    assert "<script>alert(1)</script>" in text
    assert "found nothing" in text
    assert "1 more passage did not fit the budget" in text
    assert "no answer" in text
    assert "gold" in text


def test_an_audit_that_ran_and_one_that_did_not_are_told_apart(full_report):
    found, clean = full_report.labels
    never = dataclasses.replace(clean, audit=None)
    text = " ".join(
        Page(render_report(dataclasses.replace(full_report, labels=(found, clean, never)))).text["labels"].split()
    )
    assert "1 suspicious negative" in text
    assert "Audit: no suspicious negative found." in text
    assert "Audit: not measured" in text


def test_a_long_audit_says_how_many_it_does_not_list(full_report):
    found = full_report.labels[0]
    long = dataclasses.replace(found, audit=found.audit * 51)
    text = Page(render_report(dataclasses.replace(full_report, labels=(long,)))).text["labels"]
    assert "The first 50 of 51" in text


def test_missing_parts_are_not_measured_and_never_0(summary):
    page = Page(render_report(empty_report(summary)))
    for section in ("cross", "workspace", "training", "labels", "examples", "stages"):
        assert "not measured" in page.text[section]
    assert not re.search(r"\b0\b(?! and p)", page.text["cross"] + page.text["workspace"] + page.text["training"])
    assert "nothing is claimed" in page.text[""]


@pytest.mark.parametrize(
    "text",
    ["</section></main><script>x</script>", '" onmouseover="x', "{{ 7 * 7 }}", "\u202eevil", "lone \ud800 surrogate"],
)
def test_hostile_text_stays_text(summary, tmp_path, text):
    turn = ExampleTurn(text, text, (ShownPassage(text, text, text, is_gold=True),), "ok")
    example = Example(text, (text,), (Attempt(text, (turn,), text, True, "answered"),))
    report = dataclasses.replace(
        empty_report(summary), name=text, examples=(example,), configuration=text, machine=text, packages={text: text}
    )
    write_report(tmp_path / "report.html", report)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    shown = text.replace("\ud800", "\\ud800")
    assert page.text["examples"].count(shown) >= 6
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    assert "script" not in page.tags


def test_light_and_dark_define_the_same_colours(full_report):
    html = render_report(full_report)
    light, dark = re.findall(r":root \{(.*?)\}", html, flags=re.DOTALL)
    names = [set(re.findall(r"(--[a-z0-9]+):", block)) for block in (light, dark)]
    assert names[0] == names[1]
    assert set(re.findall(r"var\((--[a-z0-9]+)\)", html)) <= names[0] | {"--heat"}
