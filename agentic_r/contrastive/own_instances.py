"""A user's own training instances, in the shapes that retriever trainers read, as ours.

    query, positives, negatives            ours: each passage a text, an id of the corpus, or {id, title, text}
    id, question_id, positive, ...         as the loop writes them: ids of the corpus
    query_text, positive_document_ids ...  Tevatron, with a corpus
    query, positive_passages ...           Tevatron, passages in the row
    query, pos, neg                        FlagEmbedding, pos_scores and neg_scores as relevance where they are 0-1
    anchor, positive, negative_1 ...       sentence-transformers: pairs, triplets, any number of negatives

A row with several positives becomes one instance for each, with the others masked. Passages given as texts get an id
made of the text, so that the same text is the same passage. Fields of no use are counted by name.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentic_r.artifacts.fingerprint import fingerprint_strings
from agentic_r.corpus.report import Fault, ReadingReport
from agentic_r.corpus.rows import Row, first_field, id_field, read_rows, text_field
from agentic_r.errors import DataError
from agentic_r.types import Passage, TrainingInstance

__all__ = ["OwnInstances", "read_instances", "read_pool"]

_QUERY = ("query", "query_text", "anchor", "question")
_QUERY_ID = ("id", "query_id", "qid", "_id")
_POSITIVES = ("positives", "positive", "pos", "positive_passages", "positive_document_ids")
_NEGATIVES = ("negatives", "negative", "neg", "negative_passages", "negative_document_ids")
_PASSAGE_ID = ("id", "docid", "_id", "doc_id", "pid", "passage_id", "document_id")
_PASSAGE_TEXT = ("text", "contents", "document_text", "content", "passage")
_SCORES = ("pos_scores", "neg_scores")
_NUMBERED_NEGATIVE = re.compile(r"negative_(\d+)")
_OURS = ("question", "question_id", "other_positives", "history", "relevance")


@dataclass(slots=True)
class OwnInstances:
    """What was read.

    Attributes:
        instances: One for each positive.
        passages: Every passage that is known: the corpus, and those given in rows.
        num_rows: Rows read.
        unused_fields: Rows by name of a field that says nothing to the trainer.
    """

    instances: list[TrainingInstance] = field(default_factory=list)
    passages: dict[str, Passage] = field(default_factory=dict)
    num_rows: int = 0
    unused_fields: Counter[str] = field(default_factory=Counter)


def read_pool(path: Path) -> dict[str, Passage]:
    """Read passages by id from a jsonl, tsv or parquet file.

    Raises:
        DataError: naming file and line: a broken row, an id that comes twice with another text, no row at all.
    """
    passages: dict[str, Passage] = {}
    for row in read_rows(path, report=ReadingReport(broken_lines="stop"), columns=(_PASSAGE_ID, _PASSAGE_TEXT)):
        try:
            passage = _passage(row.values)
        except Fault as fault:
            raise _refused(row, fault) from None
        if passages.setdefault(passage.id, passage) != passage:
            raise DataError(f"{row.place}: id {passage.id!r} stands here with another text; give each passage its own")
    if not passages:
        raise DataError(f"{path}: no passage in it; give rows with id and text")
    return passages


def read_instances(path: Path, *, pool: Mapping[str, Passage]) -> OwnInstances:
    """Read a file of instances in any of the shapes above; rows may differ.

    Args:
        path: A jsonl, tsv or parquet file.
        pool: The corpus, for rows that name passages by id; may be empty.

    Raises:
        DataError: naming file and line: no query, no positive, a passage that is not in the corpus, a broken row.
    """
    found = OwnInstances(passages=dict(pool))
    for row in read_rows(path, report=ReadingReport(broken_lines="stop"), columns=(_QUERY, _POSITIVES)):
        found.num_rows += 1
        try:
            found.instances.extend(_instances(row, found, number=found.num_rows))
        except Fault as fault:
            raise _refused(row, fault) from None
        found.unused_fields.update(name for name in row.values if not _is_used(name))
    if not found.instances:
        raise DataError(f"{path}: no instance in it; give rows with a query and its positives")
    return found


def _instances(row: Row, found: OwnInstances, *, number: int) -> Iterator[TrainingInstance]:
    name, query = text_field(row.values, _QUERY, reason="no query")
    question = row.values.get("question") if name != "question" else None
    positives = [_known(item, found) for item in _listed(row.values, _POSITIVES)]
    if not positives:
        raise Fault("no positive", f"expected one of {', '.join(_POSITIVES)}")
    negatives = [_known(item, found) for item in _negatives(row.values)]
    others = [_known(item, found) for item in _listed(row.values, ("other_positives",))]
    relevance = _relevance(row.values, num_positives=len(positives), num_negatives=len(negatives))
    identifier = id_field(row.values, _QUERY_ID) if first_field(row.values, _QUERY_ID)[0] else f"row-{number}"
    for place, positive in enumerate(positives):
        rest = dict.fromkeys(item for item in (*positives, *others) if item != positive)
        yield TrainingInstance(
            id=identifier if len(positives) == 1 else f"{identifier}-{place}",
            question_id=str(row.values.get("question_id") or identifier),
            question=question if isinstance(question, str) else "",
            query=query,
            positive=positive,
            negatives=tuple(negatives),
            other_positives=tuple(rest),
            relevance=(relevance[place], *relevance[len(positives) :]) if relevance else (),
        )


def _listed(values: Mapping[str, object], names: Sequence[str]) -> list[object]:
    _, given = first_field(values, names)
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _negatives(values: Mapping[str, object]) -> list[object]:
    numbered = sorted((int(match.group(1)), name) for name in values if (match := _NUMBERED_NEGATIVE.fullmatch(name)))
    return [*_listed(values, _NEGATIVES), *(values[name] for _, name in numbered if values[name] is not None)]


def _known(given: object, found: OwnInstances) -> str:
    """Return the id of a passage given as id, text or object; texts and objects become known."""
    if isinstance(given, Mapping):
        passage = _passage(given)
    elif not isinstance(given, str):
        raise Fault("passage is neither text nor object", repr(given)[:80])
    elif given in found.passages:
        return given
    elif " " not in given.strip():
        raise Fault(
            "no such passage", f"{given[:80]!r} is no id of the corpus and has no second word; give corpus: FILE"
        )
    else:
        passage = Passage(f"text-{fingerprint_strings([given])}", "", "", given)
    known = found.passages.setdefault(passage.id, passage)
    if (known.title, known.text) != (passage.title, passage.text):
        raise Fault("passage has two texts", f"id {passage.id!r}")
    return passage.id


def _passage(values: Mapping[str, object]) -> Passage:
    _, text = text_field(values, _PASSAGE_TEXT)
    title = values.get("title")
    if title is not None and not isinstance(title, str):
        raise Fault("title is not a string", repr(title)[:80])
    has_id = bool(first_field(values, _PASSAGE_ID)[0])
    identifier = id_field(values, _PASSAGE_ID) if has_id else f"text-{fingerprint_strings([title or '', text])}"
    document = values.get("document_id")
    return Passage(identifier, document if isinstance(document, str) else identifier, title or "", text)


def _relevance(values: Mapping[str, object], *, num_positives: int, num_negatives: int) -> list[float]:
    """Return graded relevance of all passages of a row, or nothing; only grades from 0 to 1 are relevance."""
    parts = [_listed(values, (name,)) for name in _SCORES]
    given = [*parts[0], *parts[1]] if any(parts) else _listed(values, ("relevance",))
    if not given:
        return []
    try:
        grades = [float(str(grade)) for grade in given]
    except ValueError:
        raise Fault("relevance is not numbers", repr(given)[:80]) from None
    if len(grades) != num_positives + num_negatives:
        raise Fault("relevance does not fit", f"{len(grades)} values for {num_positives + num_negatives} passages")
    if not all(0 <= grade <= 1 for grade in grades):
        raise Fault("relevance is not within 0 and 1", f"{min(grades)} to {max(grades)}; scale it, or leave it out")
    return grades


def _is_used(name: str) -> bool:
    known = (*_QUERY, *_QUERY_ID, *_POSITIVES, *_NEGATIVES, *_SCORES, *_OURS)
    return name in known or _NUMBERED_NEGATIVE.fullmatch(name) is not None


def _refused(row: Row, fault: Fault) -> DataError:
    return DataError(f"{row.place}: {fault.reason} ({fault.detail}); correct the row")
