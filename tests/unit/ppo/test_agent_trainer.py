import json
import shutil
from pathlib import Path

import pytest
import torch
from bandit import QUESTION, Bandit, new_bandit, settings, train

from agentic_r.config import PpoConfig
from agentic_r.errors import CollapseError
from agentic_r.ppo.trainer import train_agent

KINDS = pytest.mark.parametrize(
    ("changes", "killed_after"),
    [
        ({}, (1, 3, 4, 6)),  # before any checkpoint; between two; as one is due; after the last step
        ({"epochs": 2, "critic": "shared", "kl": 0.1}, (3,)),
        ({"whiten": False, "entropy": 0.01, "lam": 0.9}, (5,)),
    ],
    ids=["plain", "two epochs, shared critic", "no whitening"],
)


def metrics(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights(bandit: Bandit) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in bandit.policy.parameters()]


def equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@KINDS
def test_h13_a_killed_run_goes_on_to_the_weights_and_metrics_of_the_unbroken_one(
    tmp_path: Path, changes: dict[str, object], killed_after: tuple[int, ...]
) -> None:
    config = settings(**changes)
    unbroken = new_bandit(searches=True)
    before = weights(unbroken)
    train(unbroken, config, tmp_path / "unbroken")
    assert not equal(weights(unbroken), before)
    for step in killed_after:
        folder = tmp_path / f"killed-{step}"
        with pytest.raises(KeyboardInterrupt):
            train(new_bandit(searches=True), config, folder, dies_after=step)
        resumed = new_bandit(searches=True)
        train(resumed, config, folder)
        assert equal(weights(resumed), weights(unbroken)), step
        assert (folder / "metrics.jsonl").read_bytes() == (tmp_path / "unbroken" / "metrics.jsonl").read_bytes()


def test_h13_a_second_resume_from_the_same_checkpoint_gives_the_same_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(new_bandit(), settings(), tmp_path / "a", dies_after=5)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    first, second = new_bandit(), new_bandit()
    train(first, settings(), tmp_path / "a")
    train(second, settings(), tmp_path / "b")
    assert equal(weights(first), weights(second))
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")


def test_a_half_written_checkpoint_is_not_resumed_from(tmp_path: Path) -> None:
    unbroken = new_bandit()
    train(unbroken, settings(), tmp_path / "unbroken")
    with pytest.raises(KeyboardInterrupt):
        train(new_bandit(), settings(), tmp_path / "a", dies_after=5)
    half = tmp_path / "a" / "checkpoint-8"
    (half / "whole").unlink()
    (half / "optimizer.pt").write_bytes(b"half")
    resumed = new_bandit()
    train(resumed, settings(), tmp_path / "a")
    assert equal(weights(resumed), weights(unbroken))


def test_a_finished_training_run_again_changes_nothing(tmp_path: Path) -> None:
    first, again = new_bandit(), new_bandit()
    train(first, settings(), tmp_path)
    lines = metrics(tmp_path)
    train(again, settings(), tmp_path)
    assert equal(weights(first), weights(again))
    assert metrics(tmp_path) == lines


def test_a_policy_whose_layers_share_weights_is_saved_and_resumed(tmp_path: Path) -> None:
    def tied() -> Bandit:
        bandit = new_bandit()
        for model in (bandit.policy, bandit.reference):
            model.lm_head.weight = model.model.embed_tokens.weight
        return bandit

    unbroken, resumed = tied(), tied()
    train(unbroken, settings(), tmp_path / "unbroken")
    with pytest.raises(KeyboardInterrupt):
        train(tied(), settings(), tmp_path / "a", dies_after=3)
    train(resumed, settings(), tmp_path / "a")
    assert equal(weights(resumed), weights(unbroken))
    assert resumed.policy.lm_head.weight is resumed.policy.model.embed_tokens.weight


def test_metrics_have_a_line_a_step_and_say_what_was_measured(tmp_path: Path) -> None:
    train(new_bandit(searches=True), settings(), tmp_path)
    lines = metrics(tmp_path)
    assert [line["step"] for line in lines] == list(range(6))
    first = lines[0]
    assert first["kl"] == 0.0  # the policy is the reference until the first update
    assert first["value"] == 0.0
    assert first["sampler_gap"] < 1e-4
    assert first["reward"] == first["em"]
    assert 0 < first["searches"] < 1
    assert first["divergence"] >= 0.0
    assert {"entropy", "invalid_share", "tokens", "policy_loss", "value_loss", "clipped_share"} <= first.keys()
    assert first["updates_skipped"] == first["tool_failed"] == 0.0


def test_the_policy_moves_away_from_the_reference_and_the_reference_stays(tmp_path: Path) -> None:
    bandit = new_bandit()
    before = [weight.clone() for weight in bandit.reference.parameters()]
    train(bandit, settings(), tmp_path)
    assert equal(before, list(bandit.reference.parameters()))
    assert metrics(tmp_path)[-1]["kl"] != 0.0
    assert not bandit.policy.training


LEARNING = {"steps": 12, "rollouts_per_step": 32, "minibatch_size": 16, "save_every": 100}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_agent_learns_which_word_is_rewarded(tmp_path: Path, seed: int) -> None:
    bandit = new_bandit()
    assert bandit.share_of_red() == pytest.approx(0.5, abs=1e-3)
    train(bandit, settings(**LEARNING), tmp_path, seed=seed)
    lines = metrics(tmp_path)
    assert bandit.share_of_red() > 0.9
    assert lines[-1]["em"] > lines[0]["em"] + 0.3
    assert lines[-1]["kl"] > 0.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_from_a_constant_reward_the_critic_learns_and_the_agent_does_not_change(tmp_path: Path, seed: int) -> None:
    bandit = new_bandit()
    before = weights(bandit)
    train(bandit, settings(**LEARNING, constant_reward=1.0), tmp_path, seed=seed)
    lines = metrics(tmp_path)
    assert equal(weights(bandit), before)
    assert all(line["reward"] == 1.0 and line["rewards_differ"] == 0.0 for line in lines)
    assert all(0.2 < line["em"] < 0.7 for line in lines)  # what it would have been rewarded with is still measured
    assert lines[-1]["value"] > 0.7


def test_attempts_whose_search_failed_are_counted_and_neither_measured_nor_trained_on(tmp_path: Path) -> None:
    bandit = new_bandit(searches=True, failing=True)
    train(bandit, settings(steps=4, rollouts_per_step=16, minibatch_size=8, learning_rate=1e-4), tmp_path)
    lines = metrics(tmp_path)
    assert all(0 < line["tool_failed"] < 16 for line in lines)
    assert all(line["searches"] == 0.0 for line in lines)  # only those that never searched are measured
    assert all(line["updates_skipped"] == 0.0 for line in lines)


def test_a_step_in_which_every_search_failed_stops_and_says_why(tmp_path: Path) -> None:
    bandit = new_bandit(searches=True, failing=True)
    tags = [bandit.tokenizer.convert_tokens_to_ids(word) for word in ("<answer>", "<search>")]
    with torch.no_grad():
        bandit.policy.lm_head.weight[tags[0]] = 0.0
        bandit.policy.lm_head.weight *= 20.0
    with pytest.raises(CollapseError, match=r"PPO step 0: all 8 attempts .* \(refused\)") as caught:
        train(bandit, settings(), tmp_path)
    assert "\n" not in str(caught.value)


def test_updates_that_are_not_finite_leave_the_weights_alone_and_the_third_in_a_row_stops(tmp_path: Path) -> None:
    bandit = new_bandit()
    before = weights(bandit)
    with pytest.raises(CollapseError, match="3 updates in a row were not finite"):
        train(bandit, settings().model_copy(update={"value_weight": float("inf")}), tmp_path)
    assert equal(weights(bandit), before)


def test_a_question_is_drawn_again_only_after_all_others(tmp_path: Path) -> None:
    bandit = new_bandit()
    seen: list[list[str]] = []
    run = bandit.rollout.run

    class Listening:
        config = bandit.rollout.config

        def run(self, starts, **options):
            seen.append([start.question.id for start in starts])
            return run(starts, **options)

    questions = [type(QUESTION)(f"q{number}", QUESTION.text, QUESTION.answers, "train") for number in range(3)]
    train_agent(
        rollout=Listening(),
        policy=bandit.policy,
        reference=bandit.reference,
        questions=questions,
        config=PpoConfig.model_validate({**settings().model_dump(), "steps": 2}),
        folder=tmp_path,
        seed=0,
        progress=lambda done, total: None,
    )
    assert all(sorted(step[:3]) == sorted(step[3:6]) == ["q0", "q1", "q2"] for step in seen)
    assert seen[0] != seen[1]
