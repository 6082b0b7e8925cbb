"""A user's own training instances, in the shapes that retriever trainers read, as ours.

    query, positives, negatives            ours: each passage a text, an id of the corpus, or {id, title, text}
    id, question_id, positive, ...         as the loop writes them: ids of the corpus
    query_text, positive_document_ids ...  Tevatron, with a corpus
    query, positive_passages ...           Tevatron, passages in the row
    query, pos, neg                        FlagEmbedding, pos_scores and neg_scores as relevance where they are 0-1
    anchor, positive, negative_1 ...       sentence-transformers: pairs, triplets, any number of negatives

A row with several positives becomes one instance for each. Rows of one query (same question, query and history) belong
together: each of their instances knows all their positives, and all have one question id. Passages given as texts get
an id made of the text, so that the same text is the same passage. Fields of no use are counted by name.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentic_r.artifacts.fingerprint import fingerprint_strings
from agentic_r.corpus.report import Fault, ReadingReport
from agentic_r.corpus.rows import Number, Row, check_unicode, first_field, id_field, read_rows, text_field
from agentic_r.errors import DataError
from agentic_r.types import Passage, QueryText, TrainingInstance

__all__ = ["OwnInstances", "read_instances", "read_pool"]

_QUERY = ("query", "query_text", "anchor", "question")
_QUERY_ID = ("id", "query_id", "qid", "_id")
_POSITIVES = ("positives", "positive", "pos", "positive_passages", "positive_document_ids")
_NEGATIVES = ("negatives", "negative", "neg", "negative_passages", "negative_document_ids")
_PASSAGE_ID = ("id", "docid", "_id", "doc_id", "pid", "passage_id", "document_id")
_PASSAGE_TEXT = ("text", "contents", "document_text", "content", "passage")
_SCORES = ("pos_scores", "neg_scores")
_NUMBERED_NEGATIVE = re.compile(r"negative_(\d+)")
_IDS_ALONE = ("positive_document_ids", "negative_document_ids")
_OURS = ("question", "question_id", "other_positives", "history", "relevance")


@dataclass(slots=True)
class OwnInstances:
    """What was read.

    Attributes:
        instances: One for each positive.
        passages: Every passage that is known: the corpus, and those given in rows.
        num_rows: Rows read.
        num_rows_of_earlier_queries: Those whose query an earlier row had already.
        unused_fields: Rows by name of a field that says nothing to the trainer.
    """

    instances: list[TrainingInstance] = field(default_factory=list)
    passages: dict[str, Passage] = field(default_factory=dict)
    num_rows: int = 0
    num_rows_of_earlier_queries: int = 0
    unused_fields: Counter[str] = field(default_factory=Counter)


def read_pool(path: Path) -> dict[str, Passage]:
    """Read passages by id from a jsonl, tsv or parquet file.

    Raises:
        DataError: naming file and line: a broken row, an id that comes twice with another text, no row at all.
    """
    passages: dict[str, Passage] = {}
    for row in read_rows(path, report=ReadingReport(remedy="correct the row"), columns=(_PASSAGE_ID, _PASSAGE_TEXT)):
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
        DataError: naming file and line: no query, no positive, a passage that is not in the corpus, a broken row,
            an id that stands in two rows with different queries.
    """
    found = OwnInstances(passages=dict(pool))
    places: dict[str, tuple[str, QueryText]] = {}
    asked: set[QueryText] = set()
    for row in read_rows(path, report=ReadingReport(remedy="correct the row"), columns=(_QUERY, _POSITIVES)):
        found.num_rows += 1
        try:
            made = _instances(row, found, number=found.num_rows)
        except Fault as fault:
            raise _refused(row, fault) from None
        query = _asked(made[0])
        place, known = places.setdefault(made[0].id, (row.place, query))
        if known != query:
            raise DataError(f"{row.place}: id {made[0].id!r} has another query than at {place}; give each its own id")
        found.num_rows_of_earlier_queries += query in asked
        asked.add(query)
        found.instances.extend(made)
        found.unused_fields.update(name for name in row.values if not _is_used(name))
    if not found.instances:
        raise DataError(f"{path}: no instance in it; give rows with a query and its positives")
    found.instances = _numbered(_brought_together(found.instances), path)
    return found


def _asked(item: TrainingInstance) -> QueryText:
    return QueryText(item.query, item.question, item.history)


def _brought_together(instances: Sequence[TrainingInstance]) -> list[TrainingInstance]:
    """Give the instances of one query all its positives, and one question id: the rows', the question's, or its own."""
    positives: dict[QueryText, dict[str, None]] = {}
    question_ids: dict[QueryText, str] = {}
    for item in instances:
        query = _asked(item)
        positives.setdefault(query, {}).update(dict.fromkeys((item.positive, *item.other_positives)))
        question_ids[query] = question_ids.get(query) or item.question_id
    return [
        replace(
            item,
            question_id=question_ids[_asked(item)] or _question_id(item),
            other_positives=tuple(name for name in positives[_asked(item)] if name != item.positive),
        )
        for item in instances
    ]


def _question_id(item: TrainingInstance) -> str:
    parts = [item.question] if item.question else ["", item.query, *item.history]
    return f"question-{fingerprint_strings(parts)}"


def _numbered(instances: Sequence[TrainingInstance], path: Path) -> list[TrainingInstance]:
    """Number the instances that have one id (several positives, or several rows of one query) from 0."""
    total, used = Counter(item.id for item in instances), Counter[str]()
    numbered: dict[str, TrainingInstance] = {}
    for item in instances:
        name = item.id if total[item.id] == 1 else f"{item.id}-{used[item.id]}"
        used[item.id] += 1
        if name in numbered:
            raise DataError(f"{path}: id {name!r} is also that of a positive of another row; rename one of them")
        numbered[name] = replace(item, id=name)
    return list(numbered.values())


def _instances(row: Row, found: OwnInstances, *, number: int) -> list[TrainingInstance]:
    """One instance for each positive of a row; all with the row's id, the question id empty where it has none."""
    name, query = text_field(row.values, _QUERY, reason="no query")
    question = row.values.get("question") if name != "question" else None
    if not query.strip():
        raise Fault("empty query", f"field {name!r}")
    check_unicode(query, question if isinstance(question, str) else "")
    positives = _listed_passages(row.values, _POSITIVES, found)
    if not positives:
        raise Fault("no positive", f"expected one of {', '.join(_POSITIVES)}")
    negatives = [*_listed_passages(row.values, _NEGATIVES, found), *_numbered_negatives(row.values, found)]
    others = _listed_passages(row.values, ("other_positives",), found)
    relevance = _relevance(row.values, num_positives=len(positives), num_negatives=len(negatives))
    identifier = id_field(row.values, _QUERY_ID) if first_field(row.values, _QUERY_ID)[0] else f"row-{number}"
    return [
        TrainingInstance(
            id=identifier,
            question_id=str(row.values.get("question_id") or ""),
            question=question if isinstance(question, str) else "",
            query=query,
            positive=positive,
            negatives=tuple(negatives),
            other_positives=tuple(dict.fromkeys(item for item in (*positives, *others) if item != positive)),
            history=_history(row.values),
            relevance=(relevance[place], *relevance[len(positives) :]) if relevance else (),
        )
        for place, positive in enumerate(positives)
    ]


def _history(values: Mapping[str, object]) -> tuple[str, ...]:
    given = values.get("history")
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(text, str) and not isinstance(text, Number) for text in given):
        raise Fault("history is no list of strings", repr(given)[:80])
    check_unicode(*given)
    return tuple(given)


def _listed(values: Mapping[str, object], names: Sequence[str]) -> list[object]:
    _, given = first_field(values, names)
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _listed_passages(values: Mapping[str, object], names: Sequence[str], found: OwnInstances) -> list[str]:
    """Ids of the passages that the first of the fields names; what its strings are depends on the field."""
    are_ids = first_field(values, names)[0] in _IDS_ALONE
    return [_known(item, found, is_id=are_ids) for item in _listed(values, names)]


def _numbered_negatives(values: Mapping[str, object], found: OwnInstances) -> list[str]:
    numbered = sorted((int(match.group(1)), name) for name in values if (match := _NUMBERED_NEGATIVE.fullmatch(name)))
    return [_known(values[name], found, is_id=False) for _, name in numbered if values[name] is not None]


def _known(given: object, found: OwnInstances, *, is_id: bool) -> str:
    """Return the id of a passage given as id, text or object; texts and objects become known.

    A string that is no id of the corpus is a text, unless it looks like an id: ASCII without a space.
    """
    if isinstance(given, Mapping):
        passage = _passage(given)
    elif not isinstance(given, str):
        raise Fault("passage is neither text nor object", repr(given)[:80])
    elif not given.strip():
        raise Fault("empty passage", "a text of no words")
    elif given in found.passages:
        return given
    elif is_id:
        raise Fault("no such passage", f"{given[:80]!r} is no id of the corpus; give corpus: FILE with it in")
    elif given.isascii() and not any(character.isspace() for character in given.strip()):
        raise Fault(
            "no such passage",
            f"{given[:80]!r} is no id of the corpus and has no second word; give corpus: FILE, or a text of one word "
            "as {text: ...}",
        )
    else:
        check_unicode(given)
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
    if not (text.strip() or (title or "").strip()):
        raise Fault("empty passage", "neither title nor text")
    check_unicode(text, title or "")
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
