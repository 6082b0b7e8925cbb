"""The ordered scan against one ``rg -j1`` that is given the list: 10,000 files of the tiny world, interleaved runs.

``first_30``: until 30 matches of a common word have arrived. ``full``: the lowest of three scans read to their end (a
common word, a middling class pattern, an absent word), both sides read as ripgrep's own text. A ratio above 1 means
that the ordered scan is faster; each is a quotient of medians. Every pair of runs is also compared byte for byte.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agentic_r.workspace.ripgrep import find_ripgrep
from agentic_r.workspace.scan import OrderedScanner, ScanRequest
from agentic_r.world.build import build_world

COMMON, MIDDLING, ABSENT = "the", "[0-9]{2} \\.", "zyxwvut"
FIRST = 30
READ_BYTES = 1 << 20


def make_files(folder: Path, *, documents: int, seed: int) -> list[str]:
    """Write the world's documents; return their names in a shuffled order, as a ranking would give them."""
    names = []
    for document in build_world(seed, num_documents=documents).documents:
        names.append(f"{document.title.replace(' ', '_')}_{document.id}.txt")
        (folder / names[-1]).write_text(document.text, encoding="utf-8")
    random.Random(seed).shuffle(names)
    return names


class Peer:
    """``rg -j1`` with every file on its command line."""

    def __init__(self, rg: Path, folder: Path, names: Sequence[str]) -> None:
        self._rg, self._folder, self._names = rg, folder, names

    def read(self, pattern: str, *, num_lines: int | None = None) -> bytes:
        """Return its output, or that many lines of it, after which it is ended."""
        fixed = ["-j1", "--no-config", "--no-mmap", "--encoding=none", "--text", "-H", "-n", "--no-heading"]
        fixed.append("--color=never")
        flush = ["--line-buffered"] if num_lines is not None else []  # else 30 lines wait for a full buffer
        command = [str(self._rg), *fixed, *flush, "-e", pattern, "--", *self._names]
        with subprocess.Popen(
            command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pipesize=READ_BYTES, bufsize=0
        ) as process:
            assert process.stdout is not None
            pieces, count = [], 0
            while chunk := os.read(process.stdout.fileno(), READ_BYTES):
                pieces.append(chunk)
                count += chunk.count(b"\n")
                if num_lines is not None and count >= num_lines:
                    process.kill()
                    break
        text = b"".join(pieces)
        return text if num_lines is None else b"".join(line + b"\n" for line in text.split(b"\n")[:num_lines])


class Ours:
    """The ordered scan."""

    def __init__(self, scanner: OrderedScanner, names: Sequence[str]) -> None:
        self._scanner, self._names = scanner, names

    def first(self, pattern: str, num_matches: int) -> bytes:
        """Return the first matches, with the places of their hits found."""
        return self._scanner.scan(self._names, ScanRequest(pattern, max_matches=num_matches)).raw()

    def whole(self, pattern: str) -> bytes:
        """Return all output."""
        pieces: list[bytes] = []

        def write(piece: bytes) -> bool:
            pieces.append(piece)
            return True

        self._scanner.stream(self._names, ScanRequest(pattern), write)
        return b"".join(pieces)


def compare(runs: int, ours: Callable[[], bytes], peer: Callable[[], bytes]) -> dict[str, float]:
    """Run both in turns; return the medians in milliseconds and their quotient.

    Raises:
        SystemExit: the two outputs differ.
    """
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    outputs = {}
    for _ in range(runs):
        for name, work in (("ours", ours), ("peer", peer)):
            started = time.perf_counter()
            outputs[name] = work()
            seconds[name].append(time.perf_counter() - started)
        if outputs["ours"] != outputs["peer"]:
            raise SystemExit("the outputs differ")
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "ours_ms": round(1000 * medians["ours"], 2),
        "peer_ms": round(1000 * medians["peer"], 2),
        "ratio": round(medians["peer"] / medians["ours"], 2),
        "bytes": len(outputs["peer"]),
    }


def measure(folder: Path, *, documents: int, runs: int, seed: int) -> dict[str, object]:
    """Return the benchmark's object."""
    names = make_files(folder, documents=documents, seed=seed)
    ripgrep = find_ripgrep()
    ours = Ours(OrderedScanner(ripgrep, folder, timeout_s=300), names)
    peer = Peer(ripgrep.path, folder, names)
    peer.read(ABSENT)  # every file into the system's cache
    measured = {
        "first_30": compare(runs, lambda: ours.first(COMMON, FIRST), lambda: peer.read(COMMON, num_lines=FIRST)),
        **{
            label: compare(runs, lambda: ours.whole(pattern), lambda: peer.read(pattern))  # noqa: B023 (used at once)
            for label, pattern in (("common", COMMON), ("middling", MIDDLING), ("absent", ABSENT))
        },
    }
    full = min(measured[label]["ratio"] for label in ("common", "middling", "absent"))
    return {
        "name": "scan",
        "ratios": {"first_30": measured["first_30"]["ratio"], "full": full},
        "measured": {"documents": documents, "runs": runs, **measured},
        "peer": f"{ripgrep.version} -j1, given the list",
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    }


def main() -> int:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000, help="(%(default)s)")
    parser.add_argument("--runs", type=int, default=11, help="interleaved pairs of runs (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the object alone, in one line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), documents=options.documents, runs=options.runs, seed=options.seed)
    print(json.dumps(found, indent=None if options.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
