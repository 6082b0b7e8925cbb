"""What is wrong with a user's files, before anything heavy starts; imports no torch.

Reads everything once with the very code of a run, in the tolerant way, so that all faults are listed and not the
first alone. Owns which of them would stop a run (``error:``) and which only deserve a look (``warning:``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from agentic_r.config import FilesData, PassagesConfig
from agentic_r.corpus.admission import CONFLICTING_ID, EMPTY_TEXT, REPEATED, SAME_TEXT, admit_documents
from agentic_r.corpus.build import CorpusReport
from agentic_r.corpus.demonstrations import locate_evidence, own_files, read_demonstrations, read_own_questions
from agentic_r.corpus.gold import AnswerTable, complete_evidence
from agentic_r.corpus.passages import split_document
from agentic_r.corpus.questions import QuestionSet, read_questions
from agentic_r.corpus.readers import read_documents
from agentic_r.corpus.report import Fault, ReadingReport, Tally
from agentic_r.corpus.store import Corpus, make_corpus
from agentic_r.errors import DataError
from agentic_r.types import Document, Evidence, Passage, Question

__all__ = ["MIN_PASSAGES", "DataCheck", "check_data", "examine_data"]

MIN_PASSAGES = 20  # candidates a query, as published: a smaller corpus cannot fill them


@dataclass(frozen=True, slots=True)
class DataCheck:
    """Findings, errors first, and what a run would have to work with (0 where it cannot be read)."""

    findings: tuple[str, ...]
    documents: int
    passages: int
    train_questions: int
    heldout_questions: int
    demonstrations: int


def check_data(data: FilesData, passages: PassagesConfig) -> list[str]:
    """Return one line for each finding, errors first; an empty list means that the data can be used.

    Args:
        data: Where the files are.
        passages: How documents would be cut.
    """
    return list(examine_data(data, passages).findings)


def examine_data(data: FilesData, passages: PassagesConfig) -> DataCheck:
    """Return the findings of ``check_data`` with the sizes of what was read."""
    findings = _Findings()
    tolerant = data.model_copy(update={"broken_lines": "skip", "conflicting_ids": "first"})
    questions = _check_questions(tolerant, data, findings)
    num_demonstrations = _check_demonstrations(tolerant, data, passages, questions, findings)
    seen = _check_documents(tolerant, data, passages, questions, findings)
    if questions is not None and seen is not None:
        _check_gold(questions, seen, findings)
    errors = [f"error: {line}" for line in findings.errors]
    return DataCheck(
        findings=(*errors, *(f"warning: {line}" for line in findings.warnings)),
        documents=len(seen.num_passages) if seen is not None else 0,
        passages=sum(seen.num_passages.values()) if seen is not None else 0,
        train_questions=len(questions.train) if questions is not None else 0,
        heldout_questions=len(questions.heldout) if questions is not None else 0,
        demonstrations=num_demonstrations,
    )


@dataclass(slots=True)
class _Findings:
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, line: str, *, stops: bool) -> None:
        (self.errors if stops else self.warnings).append(line)


@dataclass(slots=True)
class _Seen:
    """What one pass over the documents tells about the questions."""

    num_passages: dict[str, int] = field(default_factory=dict)
    wrong_evidence: list[str] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)


def _check_questions(tolerant: FilesData, data: FilesData, findings: _Findings) -> QuestionSet | None:
    try:
        questions = read_questions(tolerant)
    except DataError as error:
        findings.errors.append(str(error))
        return None
    _report_skipped("questions", questions.report, stops=data.broken_lines == "stop", findings=findings)
    texts = [question.text for question in (*questions.train, *questions.heldout)]
    if len(set(texts)) != len(texts):
        findings.warnings.append(f"{data.questions}: {len(texts) - len(set(texts))} questions repeat another's text")
    return questions


def _check_demonstrations(
    tolerant: FilesData, data: FilesData, passages: PassagesConfig, questions: QuestionSet | None, findings: _Findings
) -> int:
    """Read the demonstrations; return how many can be used. Of a set of its own everything is read."""
    if tolerant.demonstrations is None or questions is None:
        return 0
    stops = data.broken_lines == "stop"
    own = own_files(tolerant)
    try:
        if own is None:
            found = read_demonstrations(tolerant.demonstrations, questions)
        else:
            asked = read_own_questions(own, heldout=questions.heldout)
            _report_skipped("demonstration questions", asked.report, stops=stops, findings=findings)
            assert own.demonstrations is not None, "own_files names all three"
            found = read_demonstrations(own.demonstrations, asked)
            locate_evidence(found.demonstrations, _read_corpus(own, passages, stops=stops, findings=findings))
    except DataError as error:
        findings.errors.append(str(error))
        return 0
    _report_skipped("demonstrations", found.report, stops=stops, findings=findings)
    return len(found.demonstrations)


def _read_corpus(own: FilesData, passages: PassagesConfig, *, stops: bool, findings: _Findings) -> Corpus:
    """Read a demonstration set's corpus into memory: it is small."""
    reading = ReadingReport(broken_lines="skip")
    documents = {
        document.id: document
        for document in admit_documents(
            read_documents(own, report=reading),
            report=reading,
            keep_empty=passages.keep_empty,
            conflicting_ids=own.conflicting_ids,
        )
    }
    pieces: dict[str, Passage] = {
        piece.id: piece
        for document in documents.values()
        for piece in split_document(document, max_words=passages.max_words)
    }
    _report_skipped("demonstration documents", reading, stops=stops, findings=findings)
    return make_corpus(documents, pieces, fingerprint="unfinished")


def _check_documents(
    tolerant: FilesData,
    data: FilesData,
    passages: PassagesConfig,
    questions: QuestionSet | None,
    findings: _Findings,
) -> _Seen | None:
    reading = ReadingReport(broken_lines="skip")
    report = CorpusReport(reading=reading, max_words=passages.max_words)
    asked = (*questions.train, *questions.heldout) if questions is not None else ()
    seen = _Seen()
    answers = AnswerTable(asked)
    documents = admit_documents(
        read_documents(tolerant, report=reading),
        report=reading,
        keep_empty=passages.keep_empty,
        conflicting_ids=tolerant.conflicting_ids,
    )
    try:
        by_document = _evidence_by_document(asked)
        for document in documents:
            pieces = split_document(document, max_words=passages.max_words)
            report.count(document, num_passages=len(pieces))
            seen.num_passages[document.id] = len(pieces)
            seen.wrong_evidence.extend(_wrong_evidence(document, by_document.get(document.id, [])))
            for piece in pieces:
                seen.answered.update(answers.find(piece.text))
    except DataError as error:
        findings.errors.append(str(error))
        return None
    _report_documents(data, passages, report, findings)
    return seen if report.documents else None


def _report_documents(data: FilesData, passages: PassagesConfig, report: CorpusReport, findings: _Findings) -> None:
    reading = report.reading
    conflicting = reading.skipped.pop(CONFLICTING_ID, Tally())
    empty = reading.skipped.pop(EMPTY_TEXT, Tally())
    _report_skipped("documents", reading, stops=data.broken_lines == "stop", findings=findings)
    if conflicting.count:
        line = f"{data.documents}: {conflicting.count} rows use an id again with another text: {_listed(conflicting)}"
        line += "; make ids unique, or set data.conflicting_ids to first" if data.conflicting_ids == "stop" else ""
        findings.add(line, stops=data.conflicting_ids == "stop")
    if empty.count:
        findings.warnings.append(f"{data.documents}: {empty.count} documents are empty: {_listed(empty)}")
    repeated = reading.warned.get(REPEATED, Tally())
    if repeated.count:
        findings.warnings.append(f"{data.documents}: {repeated.count} rows stand there again: {_listed(repeated)}")
    same = reading.warned.get(SAME_TEXT, Tally())
    if same.count:
        findings.warnings.append(f"{data.documents}: {same.count} documents repeat a text: {_listed(same)}")
    for reason, tally in reading.ignored.items():
        if reason.startswith("file type"):
            findings.warnings.append(f"{data.documents}: {tally.count} files not read ({reason}): {_listed(tally)}")
    if not report.documents:
        findings.errors.append(
            f"{data.documents}: no usable document among {reading.read} read; correct data.documents"
        )
    elif report.passages < MIN_PASSAGES:
        findings.warnings.append(
            f"{data.documents}: only {report.passages} passages; queries get {MIN_PASSAGES} candidates as published, "
            "so lower labels.candidates and labels.selection.passages_per_query, or add documents"
        )
    if report.long_documents.count:
        findings.warnings.append(
            f"{data.documents}: {report.long_documents.count} of {report.documents} documents have more than "
            f"{passages.max_words} words; they are cut into passages, nothing is lost"
        )


def _check_gold(questions: QuestionSet, seen: _Seen, findings: _Findings) -> None:
    asked = (*questions.train, *questions.heldout)
    absent = [
        f"{question.id} names {item.document_id}"
        for question in asked
        for item in question.evidence
        if not _is_known(item.document_id, seen.num_passages)
    ]
    if absent:
        findings.errors.append(
            f"{len(absent)} evidence ids are not in the corpus: {_first(absent)}; correct them, or add the documents"
        )
    if seen.wrong_evidence:
        findings.errors.append(
            f"{len(seen.wrong_evidence)} pieces of evidence are wrong: {_first(seen.wrong_evidence)}; correct them"
        )
    without = [question.id for question in asked if not question.evidence]
    if without and len(without) < len(asked):
        findings.warnings.append(f"{len(without)} of {len(asked)} questions name no evidence: {_first(without)}")
    unanswered = [identifier for identifier in without if identifier not in seen.answered]
    if unanswered:
        findings.warnings.append(
            f"{len(unanswered)} of {len(without)} questions without evidence have no passage that holds an answer, and "
            f"cannot be measured: {_first(unanswered)}"
        )


def _is_known(identifier: str, num_passages: dict[str, int]) -> bool:
    if identifier in num_passages:
        return True
    document_id, _, number = identifier.rpartition("#")
    return number.isdecimal() and int(number) < num_passages.get(document_id, 0)


def _evidence_by_document(questions: tuple[Question, ...]) -> dict[str, list[tuple[str, Evidence]]]:
    found: dict[str, list[tuple[str, Evidence]]] = {}
    for question in questions:
        for item in question.evidence:
            found.setdefault(item.document_id, []).append((question.id, item))
    return found


def _wrong_evidence(document: Document, pieces: list[tuple[str, Evidence]]) -> Iterator[str]:
    for question_id, evidence in pieces:
        try:
            complete_evidence(evidence, document)
        except Fault as fault:
            yield f"question {question_id}: {fault}"


def _report_skipped(what: str, report: ReadingReport, *, stops: bool, findings: _Findings) -> None:
    for reason, tally in report.skipped.items():
        note = next((f"; {case.note}" for case in tally.listed if case.note), "")
        way_out = "; correct them, or set data.broken_lines to skip" if stops else ""
        line = f"{tally.count} {what} cannot be used ({reason}{note}): {_listed(tally)}{way_out}"
        findings.add(line, stops=stops)


def _listed(tally: Tally) -> str:
    return _first([f"{case.id} at {case.place}" if case.id else case.place for case in tally.listed], of=tally.count)


def _first(items: list[str], *, of: int | None = None, limit: int = 5) -> str:
    more = (len(items) if of is None else of) - min(limit, len(items))
    return ", ".join(items[:limit]) + (f" and {more} more" if more else "")
