"""Excerpts are true to the document in every script, and within their budget."""

from hypothesis import given
from hypothesis import strategies as st

from agentic_r.workspace.excerpts import cut_excerpt, printable, show_matches
from agentic_r.workspace.scan import ScanLine, ScanResult

letters = st.text("ab 字é😀\x00\t", max_size=40)


def match_in(before, hit, after):
    start = len(before.encode())
    return ScanLine("a.txt", 1, (before + hit + after + "\n").encode(), ((start, start + len(hit.encode())),))


@given(before=letters, hit=st.text("x字", min_size=1, max_size=6), after=letters, width=st.integers(6, 50))
def test_a_window_is_a_slice_of_the_line_that_holds_the_match(before, hit, after, width):
    line = before + hit + after
    excerpt = cut_excerpt(match_in(before, hit, after), max_characters=width)
    assert excerpt.end - excerpt.start <= width
    assert excerpt.start <= len(before)
    assert excerpt.end >= len(before) + len(hit)
    marked = ("…" if excerpt.start else "") + printable(line[excerpt.start : excerpt.end])
    assert excerpt.text == marked + ("…" if excerpt.end < len(line) else "")


@given(line=st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")), data=st.data())
def test_any_bytes_give_an_excerpt(line, data):
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, len(line)))
    excerpt = cut_excerpt(ScanLine("a.txt", 1, line, ((start, end),)), max_characters=8)
    text = line.removesuffix(b"\r").decode("utf-8", "replace")
    assert 0 <= excerpt.start <= excerpt.end <= len(text)
    assert excerpt.end - excerpt.start == min(8, len(text))


@given(lines=st.lists(letters, max_size=6), width=st.integers(20, 60), room=st.integers(0, 400))
def test_the_output_stays_within_its_budget_and_shows_what_it_says(lines, width, room):
    matches = tuple(
        ScanLine(f"{number}.txt", 1, (line + "x\n").encode(), ((0, 1),)) for number, line in enumerate(lines)
    )
    result = ScanResult("ok", matches, len(matches), len(matches), len(matches), complete=True)
    shown = show_matches(result, document_id=lambda name: name, excerpt_characters=width, max_characters=room)
    assert len(shown.text) <= room
    for span, line in zip(shown.spans, shown.text.split("\n"), strict=False):
        body = lines[int(span.document_id.removesuffix(".txt"))] + "x"
        assert printable(body[span.start : span.end]) in line
