"""A two-armed toy: an agent that answers one of two words, about as often each, and some noise."""

import copy
from dataclasses import dataclass
from pathlib import Path

import torch
from fakes import FakeRetriever, by_id
from tiny_models import chain_llama, language_model, word_tokenizer
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from agentic_r.agent.rollout import Rollout
from agentic_r.config import AgentConfig, PpoConfig
from agentic_r.ppo.trainer import train_agent
from agentic_r.types import Passage, Question, SearchResult

WORDS = "question : which one ? red blue paint doc 1 2 3 ( title ) . no results"
QUESTION = Question("q", "which one ?", ("red",), "train")


@dataclass(frozen=True, slots=True)
class Bandit:
    policy: LlamaForCausalLM
    reference: LlamaForCausalLM
    tokenizer: PreTrainedTokenizerFast
    rollout: Rollout

    def share_of_red(self) -> float:
        """Probability of ``red`` among the two words, after the prompt and the opening tag."""
        answer, red, blue = (self.tokenizer.convert_tokens_to_ids(word) for word in ("<answer>", "red", "blue"))
        with torch.no_grad():
            prompt = self.rollout.environment.prompt_ids(QUESTION)
            logits = self.policy(input_ids=torch.tensor([[*prompt, answer]])).logits[0, -1]
        return float(torch.softmax(logits[[red, blue]], dim=0)[0])


def new_bandit(*, searches: bool = False, failing: bool = False, **settings: object) -> Bandit:
    """``searches``: half of the attempts search first; ``failing``: those searches fail."""
    tokenizer = word_tokenizer(WORDS)
    opening, closing, search, found, ask, red, blue = (
        tokenizer.convert_tokens_to_ids(word)
        for word in ("<answer>", "</answer>", "<search>", "</information>", "?", "red", "blue")
    )
    paint, closing_search = tokenizer.convert_tokens_to_ids("paint"), tokenizer.convert_tokens_to_ids("</search>")
    follows = {ask: opening, found: opening, opening: red, red: closing, blue: closing}
    policy = chain_llama(len(tokenizer), {**follows, search: paint, paint: closing_search})
    with torch.no_grad():
        policy.lm_head.weight[blue, opening] = 1.0
        if searches:
            policy.lm_head.weight[search, ask] = 1.0
    retriever = FakeRetriever(otherwise=SearchResult((), "failed", "refused") if failing else ["p"])
    tree = {
        "model": {"kind": "tiny", "path": "unused"},
        "prompt": "tiny",
        "max_turns": 2 if searches else 1,
        "max_turn_tokens": 4,
        "max_observation_tokens": 40,
        "max_context_tokens": 200,
        **settings,
    }
    rollout = Rollout(
        model=language_model(policy, tokenizer),
        retriever=retriever,
        passages=by_id(Passage("p", "d", "paint", "red paint .")),
        config=AgentConfig.model_validate(tree),
    )
    return Bandit(policy, copy.deepcopy(policy), tokenizer, rollout)


def settings(**changes: object) -> PpoConfig:
    tree = {
        "steps": 6,
        "rollouts_per_step": 8,
        "minibatch_size": 4,
        "learning_rate": 5e-3,
        "critic_learning_rate": 5e-3,
        "warmup_steps": 1,
        "save_every": 2,
        **changes,
    }
    return PpoConfig.model_validate(tree)


def train(bandit: Bandit, config: PpoConfig, folder: Path, *, seed: int = 0, dies_after: int | None = None) -> None:
    """Train; with ``dies_after`` the process dies when that many steps are done, before any checkpoint of theirs."""

    def progress(done: int, total: int) -> None:
        if done == dies_after:
            raise KeyboardInterrupt

    train_agent(
        rollout=bandit.rollout,
        policy=bandit.policy,
        reference=bandit.reference,
        questions=[QUESTION],
        config=config,
        folder=folder,
        seed=seed,
        progress=progress,
    )
