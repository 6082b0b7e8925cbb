"""What labels by an endpoint will ask for, told before the first request.

Tokens are estimated as characters / 4: no tokenizer of a remote model is at hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentic_r.labels.prompting import JudgePrompts
from agentic_r.types import CandidateList, Passage, RelevanceRequest, SubAnswer, SubAnswerRequest

__all__ = ["Price", "estimate_price", "price_ceiling"]

_CHARACTERS_A_TOKEN = 4
_TURN_CHARACTERS = 300  # what an agent writes in a turn, generously
_TITLE_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Price:
    """Prompts and tokens; ``max_reply_tokens`` is the limit, not the expectation. Retries are not in it."""

    num_sub_answer_prompts: int
    num_relevance_prompts: int
    prompt_tokens: int
    max_reply_tokens: int

    def line(self) -> str:
        """All of it in one line."""
        return (
            f"{self.num_sub_answer_prompts} prompts for sub-answers, {self.num_relevance_prompts} for relevance; about "
            f"{self.prompt_tokens} tokens in (an estimate: characters / {_CHARACTERS_A_TOKEN}), "
            f"at most {self.max_reply_tokens} out, without retries"
        )


def estimate_price(
    requests: Sequence[SubAnswerRequest],
    queries: Sequence[CandidateList],
    *,
    passages: Mapping[str, Passage],
    prompts: JudgePrompts,
    max_tokens: int,
) -> Price:
    """Estimate both stages of a judge behind an endpoint; replies already kept are not taken off.

    Args:
        requests: Trajectories whose queries need sub-answers.
        queries: With their candidates; their sub-answers are not known yet and are left out of the prompts.
        passages: By id.
        prompts: The templates.
        max_tokens: Limit of one reply.
    """
    texts = [prompts.ask_sub_answers(request) for request in requests]
    for query in queries:
        shown = tuple(passages[candidate.passage_id] for candidate in query.candidates)
        unknown = SubAnswer(query.query_id, None, "price")
        texts.append(prompts.ask_relevance(RelevanceRequest(query, unknown, shown)))
    return Price(
        num_sub_answer_prompts=len(requests),
        num_relevance_prompts=len(queries),
        prompt_tokens=sum(-(-len(text) // _CHARACTERS_A_TOKEN) for text in texts),
        max_reply_tokens=max_tokens * len(texts),
    )


def price_ceiling(
    prompts: JudgePrompts,
    *,
    trajectories: int,
    queries_each: int,
    candidates: int,
    shown: int,
    passage_characters: int,
    max_tokens: int,
) -> Price:
    """Bound both stages from above before there are trajectories: every turn a search, every list full.

    Args:
        prompts: The templates.
        trajectories: Attempts at training questions in one iteration.
        queries_each: Searches that the turn budget allows.
        candidates: Passages judged a query.
        shown: Passages that a search shows the agent.
        passage_characters: Length of a passage.
        max_tokens: Limit of one reply.
    """
    passage = passage_characters + _TITLE_CHARACTERS
    sub_answer = len(prompts.sub_answers) + queries_each * (_TURN_CHARACTERS + shown * passage)
    relevance = len(prompts.relevance) + _TURN_CHARACTERS + candidates * passage
    queries = trajectories * queries_each
    return Price(
        num_sub_answer_prompts=trajectories,
        num_relevance_prompts=queries,
        prompt_tokens=(trajectories * sub_answer + queries * relevance) // _CHARACTERS_A_TOKEN,
        max_reply_tokens=max_tokens * (trajectories + queries),
    )
