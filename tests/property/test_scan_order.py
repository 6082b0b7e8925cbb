"""The ordered scan against one ``rg -j1`` over the same list: bytes identical, an early stop a prefix."""

import subprocess
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentic_r.workspace.ripgrep import find_ripgrep
from agentic_r.workspace.scan import SCAN_FLAGS, OrderedScanner, ScanRequest, shard_names

RIPGREP = find_ripgrep()
PIECES = [
    b"needle",
    b"Needle",
    b"ne",
    b" ",
    b"\n",
    b"\r\n",
    b"\x00",
    b"\xff",
    b"\xe5\xad",
    "字é".encode(),
    b"a.b",
    b"(7)",
]
PATTERNS = [
    "needle",
    "ne",
    "字",
    "é",
    "a.b",
    "[a-z]+",
    "^ne",
    "le$",
    "n|7",
    "",
    ".",
    "(7)",
    "(",
    "[",
    "\\x00",
    "zzz",
    "\\bne\\b",
]

contents = st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), min_size=1, max_size=6)
flags = st.lists(st.sampled_from([*SCAN_FLAGS, *SCAN_FLAGS.values()]), max_size=3).map(tuple)


def whole_scan(folder, names, request):
    cap = [] if request.max_matches_per_document is None else ["-m", str(request.max_matches_per_document)]
    base = ["-j1", "--no-config", "--encoding=none", "--text", "-H", "-n", "--no-heading", "--color=never"]
    command = [str(RIPGREP.path), *base, *request.flags, *cap, "-e", request.pattern, "--", *names]
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    bodies=contents,
    num_files=st.one_of(st.integers(1, 6), st.sampled_from([65, 200])),
    pattern=st.one_of(st.sampled_from(PATTERNS), st.text("nedl字é.*+?()[]|\\^$ \n", max_size=5)),
    flags=flags,
    per_document=st.one_of(st.none(), st.integers(1, 3)),
    max_matches=st.integers(1, 8),
)
def test_the_stream_of_matches_equals_that_of_one_rg_and_an_early_stop_is_a_prefix(
    bodies, num_files, pattern, flags, per_document, max_matches
):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = [f"{(number * 37) % num_files:03d}.txt" for number in range(num_files)]
        names = list(dict.fromkeys(names))
        for number, file in enumerate(names):
            (folder / file).write_bytes(bodies[number % len(bodies)])
        scanner = OrderedScanner(RIPGREP, folder, timeout_s=30)
        request = ScanRequest(pattern, flags, max_matches_per_document=per_document)
        oracle = whole_scan(folder, names, request)
        full = scanner.scan(names, request)
        assert full.state == {0: "ok", 1: "empty", 2: "bad_pattern"}[oracle.returncode]
        assert b"".join(match.raw for match in full.matches) == oracle.stdout
        if full.state == "bad_pattern":
            return
        assert full.complete
        assert full.num_scanned == len(names)
        first = scanner.scan(names, ScanRequest(pattern, flags, max_matches, per_document))
        assert first.matches == full.matches[:max_matches]
        assert first.complete == (len(full.matches) <= max_matches)
        assert first.num_found == min(len(full.matches), max_matches + 1)


@given(st.lists(st.text("ab字", min_size=1, max_size=60), max_size=300))
def test_shards_are_the_list_cut_in_order(names):
    assert [name for shard in shard_names(names) for name in shard] == names
    assert all(shard_names(names))


def test_shards_grow_from_64_to_2000_and_stay_below_the_limit_of_a_command_line():
    assert [len(shard) for shard in shard_names(["x"] * 9000)] == [64, 128, 256, 512, 1024, 2000, 2000, 2000, 1016]
    long = [len(shard) for shard in shard_names(["x" * 200] * 9000)]
    assert max(long) == 2000
    huge = [len(shard) for shard in shard_names(["x" * 4000] * 300)]
    # 4,009 bytes an argument, 524,288 a shard: 130 at most
    assert huge == [64, 128, 108]
    assert [len(shard) for shard in shard_names(["x" * 8000] * 200)] == [64, 65, 65, 6]
