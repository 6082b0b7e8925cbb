"""Kill a run at random moments and compare its end with that of an unbroken one.

    python tests/e2e/killing.py CONFIG --runs 10 --kills 1        # ten runs, each killed once
    python tests/e2e/killing.py CONFIG --runs 1 --kills 5         # one run, killed five times
    python tests/e2e/killing.py CONFIG --command "train retriever" --runs 1 --kills 5 --set instances=...

``--unbroken RUNS --seconds S`` compares with a run that stands under RUNS and took so long, instead of making one;
``--set`` is handed on to ``agentic-r run``.

Too long for the test suite; prints one line a run and exits 1 if any differs.
"""

import argparse
import filecmp
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPARED = (".jsonl", ".safetensors")
OF_TIME = {"metrics.jsonl", "outcomes.jsonl"}  # hold seconds, at the run's top and in the workspace


def main() -> int:
    """Run, kill, compare."""
    parser = argparse.ArgumentParser(description="Kill a run at random moments and compare.")
    parser.add_argument("config", type=Path)
    parser.add_argument("--command", default="run", help="of agentic-r, with a configuration that has runs and name")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unbroken", type=Path)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    options = parser.parse_args()
    if (options.unbroken is None) != (options.seconds is None):
        parser.error("--unbroken and --seconds go together")
    run = Run(options.config, options.settings, options.command.split())
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as kept:
        whole, seconds = options.unbroken, options.seconds
        if whole is None:
            whole = Path(kept) / "unbroken"
            began = time.monotonic()
            run.start(whole).communicate()
            seconds = time.monotonic() - began
        sys.stdout.write(f"unbroken: {seconds:.0f} s\n")
        bad = 0
        for number in range(options.runs):
            broken = Path(kept) / f"broken-{number}"
            moments = sorted(draw.uniform(0.05, 0.95) * seconds / options.kills for _ in range(options.kills))
            killed = [run.kill_after(broken, moment) for moment in moments]
            code = run.finish(broken)
            differing = differences(whole / run.name, broken / run.name)
            bad += bool(code or differing)
            stages = ", ".join(killed)
            sys.stdout.write(
                f"run {number}: killed in {stages}; exit {code}; {len(differing)} files differ {differing[:3]}\n"
            )
            sys.stdout.flush()
    return 1 if bad else 0


@dataclass(frozen=True)
class Run:
    """A configuration with its overrides."""

    config: Path
    settings: list[str]
    command: list[str]

    @property
    def name(self) -> str:
        """The run's folder under ``runs``."""
        given = [item.removeprefix("name=") for item in self.settings if item.startswith("name=")]
        return given[-1] if given else str(yaml.safe_load(self.config.read_text(encoding="utf-8"))["name"])

    def start(self, runs: Path) -> "subprocess.Popen[bytes]":
        """Begin or go on."""
        command = [sys.executable, "-m", "agentic_r", *self.command, str(self.config)]
        for setting in [*self.settings, f"runs={runs}"]:
            command += ["--set", setting]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def finish(self, runs: Path) -> int:
        """Go on to the end; return the exit code."""
        process = self.start(runs)
        process.communicate()
        return process.returncode

    def kill_after(self, runs: Path, seconds: float) -> str:
        """Begin or go on, kill -9 after so many seconds; return the stage that was at work."""
        process = self.start(runs)
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        begun = [path.parent for path in runs.rglob("begun.json") if not (path.parent / "manifest.json").exists()]
        if not begun:
            return "start-up or between stages"
        logs = sorted(begun[0].rglob("metrics.jsonl"), key=lambda path: path.stat().st_mtime)
        steps = f" after {len(logs[-1].read_bytes().splitlines())} steps" if logs else ""
        return "/".join(begun[0].relative_to(runs).parts) + steps


def differences(whole: Path, broken: Path) -> list[str]:
    """Files of results that are not equal byte for byte."""
    names = [
        path.relative_to(whole)
        for path in sorted(whole.rglob("*"))
        if path.suffix in COMPARED and not (path.name in OF_TIME and len(path.relative_to(whole).parts) <= 2)
    ]
    kept = [name for name in names if "checkpoint-" not in name.as_posix()]
    return [
        name.as_posix()
        for name in kept
        if not (broken / name).exists() or not filecmp.cmp(whole / name, broken / name, shallow=False)
    ]


if __name__ == "__main__":
    sys.exit(main())
