import json
from pathlib import Path

import pytest
import torch
from ppo_values import trajectory, turn
from tiny_models import logprobs_of, random_llama, word_tokenizer
from transformers import LlamaForCausalLM

from agentic_r.config import WarmStartConfig
from agentic_r.errors import DataError
from agentic_r.ppo.warm_start import warm_start
from agentic_r.types import Trajectory

TOKENIZER = word_tokenizer("a b c d e f g h i j")
MADE = [
    trajectory([11, 12], turn([13, 14, 15], [16, 17, 18]), turn([13, 19])),
    trajectory([12], turn([20, 13]), correct=1.0),
    trajectory([11, 11, 11], turn([14], [19]), turn([15], [19]), turn([16])),
    trajectory([12, 13], turn([17, 17, 18])),
    trajectory([15], turn([11, 20])),
]
FAILED = trajectory([11], turn([12, 12, 12], state="failed"), status="tool_failed")


def start(
    folder: Path,
    *,
    steps: int = 40,
    dies_after: int | None = None,
    made: list[Trajectory] | None = None,
    batch_size: int = 2,
    learning_rate: float = 3e-3,
) -> tuple[LlamaForCausalLM, int]:
    model = random_llama(len(TOKENIZER)).train()

    def progress(done: int, total: int) -> None:
        assert total == steps
        if done == dies_after:
            raise KeyboardInterrupt

    left_out = warm_start(
        model,
        TOKENIZER,
        MADE if made is None else made,
        WarmStartConfig(steps=steps, batch_size=batch_size, learning_rate=learning_rate),
        folder=folder,
        seed=3,
        progress=progress,
    )
    return model, left_out


def losses(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def sampled_loss(model: LlamaForCausalLM, made: list[Trajectory]) -> float:
    """Mean negative log-probability of the tokens that the model itself wrote, by hand."""
    total, count = 0.0, 0
    for item in made:
        context = list(item.prompt_ids)
        for one in item.turns:
            total -= sum(logprobs_of(model, context, one.sampled_ids))
            count += len(one.sampled_ids)
            context += [*one.sampled_ids, *one.observation_ids]
    return total / count


def test_the_loss_is_over_the_models_own_tokens_only(tmp_path: Path) -> None:
    _, _ = start(tmp_path, steps=5, batch_size=len(MADE), learning_rate=1e-12)  # as good as unchanged in five steps
    (line,) = losses(tmp_path)
    assert line["step"] == 5
    assert line["loss"] == pytest.approx(sampled_loss(random_llama(len(TOKENIZER)), MADE), abs=2e-3)


def test_observations_and_prompts_are_not_learned(tmp_path: Path) -> None:
    model, _ = start(tmp_path, steps=60)
    before = random_llama(len(TOKENIZER))
    assert sampled_loss(model, MADE) < sampled_loss(before, MADE) - 1.5
    observed = ([11, 12, 13, 14, 15], [16, 17, 18])
    assert sum(logprobs_of(model, *observed)) < sum(logprobs_of(before, *observed)) + 1.5
    assert not model.training


@pytest.mark.parametrize("dies_after", [3, 13, 30, 40])
def test_h13_a_killed_warm_start_goes_on_to_the_weights_and_metrics_of_the_unbroken_one(
    tmp_path: Path, dies_after: int
) -> None:
    unbroken, _ = start(tmp_path / "unbroken")
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "killed", dies_after=dies_after)
    resumed, _ = start(tmp_path / "killed")
    for first, second in zip(unbroken.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(first, second)
    assert losses(tmp_path / "killed") == losses(tmp_path / "unbroken")
    assert [line["step"] for line in losses(tmp_path / "killed")] == list(range(5, 41, 5))


def test_a_finished_warm_start_run_again_changes_nothing(tmp_path: Path) -> None:
    first, _ = start(tmp_path)
    again, _ = start(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))


def test_demonstrations_whose_search_failed_are_left_out_and_counted(tmp_path: Path) -> None:
    plain, none = start(tmp_path / "a", steps=10)
    same, left_out = start(tmp_path / "b", steps=10, made=[MADE[0], FAILED, *MADE[1:], FAILED])
    assert (none, left_out) == (0, 2)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), same.parameters(), strict=True))


def test_a_warm_start_without_a_usable_demonstration_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of 1 demonstrations can be used"):
        start(tmp_path, made=[FAILED])


def test_nothing_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start(tmp_path, steps=5)
    assert capsys.readouterr().out == ""
