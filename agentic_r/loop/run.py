"""Running a plan: one stage after the other, each exactly once over all restarts.

Owns reuse of another run's finished stages, and what is said meanwhile. What a stage does is ``learning.py``'s and
``measuring.py``'s.
"""

import os
import resource
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml

from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.artifacts.lock import locked
from agentic_r.artifacts.progress import Progress, spell_seconds
from agentic_r.artifacts.stage import Manifest, StageFolder, open_stage, read_manifest
from agentic_r.config import RunConfig
from agentic_r.evaluation.summary import Summary
from agentic_r.loop import learning, measuring, probing
from agentic_r.loop.layout import StagePlan, plan_stages, refuse_stale, require_reuse, stages_until
from agentic_r.loop.parts import Parts

__all__ = ["RunOutcome", "has_work", "run"]

_MAX_SHOWN = 4  # counts, or names of stages, in one line


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """``summary`` is None where the run was asked to stop early; ``num_failed`` counts failed records of all stages."""

    folder: Path
    summary: Summary | None
    num_failed: int


def run(config: RunConfig, *, progress: Progress, until: str | None = None) -> RunOutcome:
    """Carry a run to its end, or to the end of the stage ``until``.

    Raises:
        StaleError: a finished stage was made with other settings; names them.
        ConfigError: ``until`` is no stage; a run to reuse does not exist; or another process works in the folder.
        AgenticRError: what a stage says of its input.
    """
    stages = stages_until(plan_stages(config), until)
    require_reuse(config)
    torch.set_num_threads(config.threads)
    root = config.folder
    root.mkdir(parents=True, exist_ok=True)
    with locked(root):
        refuse_stale(stages, root)
        write_text_atomic(root / "config.yaml", yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
        parts = Parts(config)
        num_failed = sum(_run_stage(parts, plan, progress) for plan in stages)
        summary = measuring.finish_run(parts, stages) if until is None else None
    return RunOutcome(root, summary, num_failed)


def has_work(config: RunConfig, plan: StagePlan) -> bool:
    """Say whether a stage must still be worked on: it is neither finished nor taken over from a run in ``reuse``."""
    return read_manifest(plan.folder(config.folder)) is None and _reusable(config, plan) is None


def _run_stage(parts: Parts, plan: StagePlan, progress: Progress) -> int:
    progress.begin(plan.name)
    folder = plan.folder(parts.root)
    taken_from = None if read_manifest(folder) is not None else _reuse(parts, plan, folder)
    stage = open_stage(folder, plan.identity)
    if stage.done:
        progress.end(f"taken over from {taken_from}" if taken_from else "done before")
        return sum(stage.failed.values())
    _WORK[plan.kind](parts, plan, stage, progress.update)
    stage.metrics["peak_memory_bytes"] = float(_peak_memory())
    manifest = stage.finish()
    aside = f"; unfinished work of other settings is now in {stage.set_aside}" if stage.set_aside else ""
    progress.end(f"{spell_seconds(manifest.seconds):>7}  {_shown(manifest)}{aside}")
    return sum(stage.failed.values())


Work = Callable[[Parts, StagePlan, StageFolder, Callable[[int, int], None]], None]

_WORK: Mapping[str, Work] = {
    "corpus": learning.make_corpus,
    "bm25": learning.make_bm25,
    "base_retriever": learning.make_base_retriever,
    "index": learning.make_index,
    "warm_start": learning.make_warm_agent,
    "queries": measuring.record_queries,
    "agent": learning.make_agent,
    "rollout": learning.run_agent,
    "candidates": learning.make_candidates,
    "sub_answers": learning.make_sub_answers,
    "relevance": learning.make_relevance,
    "correctness": learning.make_correctness,
    "instances": learning.make_instances,
    "retriever": learning.make_retriever,
    "retrieval": measuring.measure_retrieval,
    "answers": measuring.answer_heldout,
    "workspace": probing.probe_workspace,
    "export": measuring.export_retriever,
}


def _reuse(parts: Parts, plan: StagePlan, folder: Path) -> Path | None:
    """Take a finished stage of the same fingerprint from a run named in ``reuse``; return that run."""
    other = _reusable(parts.config, plan)
    if other is None:
        return None
    open_stage(folder, plan.identity)  # sets other work aside, and refuses a folder that no stage made
    shutil.rmtree(folder)
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(plan.folder(other), part, copy_function=_link)
    part.replace(folder)
    return other


def _reusable(config: RunConfig, plan: StagePlan) -> Path | None:
    for other in config.reuse:
        manifest = read_manifest(plan.folder(other))
        if manifest is not None and manifest.fingerprint == plan.identity.fingerprint:
            return other
    return None


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or too many links
        shutil.copy2(source, target)


def _peak_memory() -> int:
    usage = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return usage * 1024


def _shown(manifest: Manifest) -> str:
    numbers = [f"{name} {value:,}" for name, value in list(manifest.counts.items())[:_MAX_SHOWN]]
    measures = [f"{name} {value:.3f}" for name, value in manifest.metrics.items() if not name.endswith("_bytes")]
    lost = {"skipped": sum(manifest.skipped.values()), "failed": sum(manifest.failed.values())}
    return ", ".join([*numbers, *measures, *(f"{name} {count:,}" for name, count in lost.items() if count)])
