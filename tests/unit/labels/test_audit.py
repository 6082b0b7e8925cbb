from labels_fakes import by_id, labelled, passage, question

from agentic_r.labels.audit import Suspicion, audit
from agentic_r.types import TrainingInstance

PASSAGES = by_id(
    passage("pos", "The teacher was Tarin Melu."),
    passage("twin", "the teacher  was TARIN MELU."),
    passage("holds", "Somebody met Tarin Melu."),
    passage("plain", "Nothing of the kind."),
)
INSTANCE = TrainingInstance("q1/0/0/0", "q1", "Who?", "the query", "pos", ("twin", "holds", "plain"))


def look(*labels, answers=("Tarin Melu",)):
    return audit(
        [INSTANCE],
        [labelled(*labels)],
        passages=PASSAGES,
        questions={"q1": question("Who?", *answers)},
        min_relevance=0.6,
    )


def test_suspicious_negatives_are_named_with_each_reason():
    found = look(("pos", 1.0, 0.9), ("twin", 1.0, 0.9), ("holds", 0.0, 0.7), ("plain", 0.0, None))
    assert found.suspicions == (
        Suspicion("q1/0/0/0", "twin", "holds an accepted answer"),
        Suspicion("q1/0/0/0", "twin", "same text as a positive"),
        Suspicion("q1/0/0/0", "twin", "leads to a correct answer"),
        Suspicion("q1/0/0/0", "twin", "as relevant as a positive must be"),
        Suspicion("q1/0/0/0", "holds", "holds an accepted answer"),
        Suspicion("q1/0/0/0", "holds", "as relevant as a positive must be"),
    )
    assert found.counts() == {
        "as relevant as a positive must be": 2,
        "holds an accepted answer": 2,
        "leads to a correct answer": 1,
        "same text as a positive": 1,
    }
    assert (found.num_instances, found.num_negatives) == (1, 3)


def test_a_yes_or_no_answer_is_not_looked_for():
    assert look(("plain", 0.0, 0.1), answers=("Nothing", "no")).counts()["holds an accepted answer"] == 1
    assert "holds an accepted answer" not in look(("plain", 0.0, 0.1), answers=("no",)).counts()


def test_statistics_leave_failed_parts_out_of_the_means():
    statistics = look(("pos", 1.0, 0.8), ("twin", None, 0.4), ("holds", 0.0, None)).statistics
    assert (statistics.num_queries, statistics.num_labels) == (1, 3)
    assert (statistics.num_without_relevance, statistics.num_without_correctness) == (1, 1)
    assert abs(statistics.mean_relevance - 0.6) < 1e-12
    assert (statistics.share_relevant, statistics.share_correct) == (0.5, 0.5)
    assert (statistics.num_some_correct, statistics.num_all_correct) == (1, 0)
