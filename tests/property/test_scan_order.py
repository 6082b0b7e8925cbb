"""The ordered scan against one ``rg -j1 --no-mmap`` over the same list: bytes identical, an early stop a prefix."""

import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentic_r.workspace.flags import parse_flags
from agentic_r.workspace.ripgrep import find_ripgrep
from agentic_r.workspace.scan import OrderedScanner, ScanRequest
from agentic_r.workspace.shards import max_shard_bytes, shard_names

RIPGREP = find_ripgrep()
SHARED_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # many small files, never to be kept
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

FLAGS = [
    *(["-i"], ["--case-sensitive"], ["-S"], ["-w"], ["-x"], ["--fixed-strings"], ["-v"], ["-iw"], ["-n"], ["-Ha"]),
    *(["-A1"], ["-B", "2"], ["--context=1"], ["-C0"], ["-m", "1"], ["--max-count=2"]),
    *(["-l"], ["--count"]),
]

contents = st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), min_size=1, max_size=6)
flags = st.lists(st.sampled_from(FLAGS), max_size=3, unique_by=lambda flag: flag[0] in ("-l", "--count") or flag[0])
flags = flags.map(lambda chosen: tuple(part for flag in chosen for part in flag))


def matches_by_document(folder, names, request):
    """How many lines of each document match, without any cap; documents with none are left out."""
    flags = [flag for flag in request.flags if flag not in ("-l", "--count")]
    counted = whole_scan(folder, names, ScanRequest(request.pattern, (*flags, "-C0", "--count"))).stdout
    return {name: int(count) for name, _, count in (line.rpartition(":") for line in counted.decode().splitlines())}


def whole_scan(folder, names, request):
    cap = [] if request.max_matches_per_document is None else ["-m", str(request.max_matches_per_document)]
    base = ["-j1", "--no-config", "--encoding=none", "--text", "-H", "-n", "--no-heading", "--no-mmap", "--color=never"]
    command = [str(RIPGREP.path), *base, *request.flags, *cap, "-e", request.pattern, "--", *names]
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)


def streamed(scanner, names, request, *, enough=None):
    """What the scanner's stream writes until it has ``enough`` bytes."""
    written = bytearray()

    def write(piece):
        written.extend(piece)
        return enough is None or len(written) < enough

    return scanner.stream(names, request, write), bytes(written)


# A memory-mapped file, which ripgrep takes where it is given at most ten, prints "-" where others print ":".
@example(
    bodies=[b"\nneedle"],
    num_files=65,
    pattern="needle",
    flags=("-A1", "-m", "1", "-v"),
    per_document=None,
    max_matches=1,
)
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    bodies=contents,
    num_files=st.one_of(st.integers(1, 6), st.integers(1, 6), st.sampled_from([65, 600])),
    pattern=st.one_of(st.sampled_from(PATTERNS), st.text("nedl字é.*+?()[]|\\^$ \n", max_size=5)),
    flags=flags,
    per_document=st.one_of(st.none(), st.integers(1, 3)),
    max_matches=st.integers(1, 8),
)
def test_the_output_equals_that_of_one_rg_and_an_early_stop_is_a_prefix(
    bodies, num_files, pattern, flags, per_document, max_matches
):
    if per_document is not None:  # with both caps the smaller counts, in ripgrep the last: an oracle for one
        flags = tuple(flag for flag in flags if flag not in ("-m", "1", "--max-count=2"))
        if parse_flags(flags).has_context:  # with -v and a cap ripgrep marks lines after the last match as matches
            flags = tuple(flag for flag in flags if flag != "-v")
        if "--count" in flags:  # beside context ripgrep counts past a cap; the scanner then asks without
            flags = (*flags, "-C0", "-A0", "-B0")
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as name:
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
        assert full.raw(has_context=parse_flags(flags).has_context) == oracle.stdout
        if full.state == "bad_pattern":
            return
        is_capped = per_document is not None and "-l" not in flags
        counts = matches_by_document(folder, names, request) if is_capped else {}
        shown = Counter(match.name for match in full.matches)
        if "--count" in flags:
            shown = Counter({line.name: int(line.line) for line in full.lines})
        assert full.num_capped == sum(count > shown[name] for name, count in counts.items())
        assert all(shown[name] >= min(count, per_document) for name, count in counts.items())
        assert full.complete == (full.num_capped == 0)
        assert full.num_scanned == len(names)
        first = scanner.scan(names, ScanRequest(pattern, flags, max_matches, per_document))
        assert first.matches == full.matches[:max_matches]
        assert first.lines == full.lines[: len(first.lines)]
        assert first.num_capped <= full.num_capped
        assert first.complete == (len(full.matches) <= max_matches and not full.num_capped)
        assert first.num_found == min(len(full.matches), max_matches + 1)
        result, written = streamed(scanner, names, request)
        assert (result.state, written) == (full.state, oracle.stdout)
        if num_files < 6:  # enough of the cases: each is a process more
            return
        _, beginning = streamed(scanner, names, request, enough=max_matches)
        assert oracle.stdout.startswith(beginning)


@given(st.lists(st.text("ab字", min_size=1, max_size=60), max_size=600), st.integers(1, 9000))
def test_shards_are_the_list_cut_in_order(names, max_bytes):
    shards = list(shard_names(names, max_bytes=max_bytes))
    assert [name for shard in shards for name in shard] == names
    assert all(shards)
    for shard in shards:
        assert len(shard) == 1 or sum(len(name.encode()) + 9 for name in shard) <= max_bytes


def test_shards_grow_and_then_take_all_the_rest_at_once():
    assert [len(shard) for shard in shard_names(["x"] * 9000, max_bytes=1 << 20)] == [64, 512, 8424]


def test_no_shard_is_longer_than_a_command_line_may_be():
    # 4,009 bytes an argument: 130 in 524,288
    huge = [len(shard) for shard in shard_names(["x" * 4000] * 600, max_bytes=1 << 19)]
    assert huge == [64, 130, 130, 130, 130, 16]
    assert max_shard_bytes() >= 1 << 17
