import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ppo_values import scalar_gae, scalar_ppo, trajectory, turn

from agentic_r.ppo.actor_critic import TokenScores
from agentic_r.ppo.advantages import credit_tokens, whiten
from agentic_r.ppo.batches import pad_trajectories, sampled_tokens
from agentic_r.ppo.losses import Experience, ppo_loss

numbers = st.floats(-3, 3, width=32)
weights = st.floats(0, 1, width=32)
tokens = st.lists(st.integers(0, 9), max_size=4)


@st.composite
def trajectories(draw: st.DrawFn) -> object:
    turns = [turn(draw(tokens), draw(tokens)) for _ in range(draw(st.integers(0, 3)))]
    return trajectory(draw(st.lists(st.integers(0, 9), min_size=1, max_size=4)), *turns)


@st.composite
def batches(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 6)))
    flags = draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    made = {"mask": torch.tensor(flags).reshape(shape)}
    for name in ("logprob", "old", "value", "old_value", "advantage", "return", "entropy"):
        values = draw(st.lists(numbers, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
        made[name] = torch.tensor(values).reshape(shape)
    return made


@settings(deadline=None)
@given(batches(), numbers, weights, weights, weights)
def test_credit_equals_the_scalar_sum(
    batch: dict[str, torch.Tensor], reward: float, kl: float, gamma: float, lam: float
) -> None:
    made = credit_tokens(
        [reward] * len(batch["mask"]),
        values_BT=batch["value"],
        mask_BT=batch["mask"],
        kl_BT=batch["entropy"],
        kl=kl,
        gamma=gamma,
        lam=lam,
    )
    for row, mask in enumerate(batch["mask"]):
        values = batch["value"][row, mask].tolist()
        expected = scalar_gae(reward, values, batch["entropy"][row, mask].tolist(), kl=kl, gamma=gamma, lam=lam)
        assert made.advantages_BT[row, mask].tolist() == pytest.approx(expected, abs=1e-4)
        returns = [advantage + value for advantage, value in zip(expected, values, strict=True)]
        assert made.returns_BT[row, mask].tolist() == pytest.approx(returns, abs=1e-4)
        assert not made.advantages_BT[row, ~mask].any()


@settings(deadline=None)
@given(batches(), st.floats(0.05, 0.5), st.floats(0.05, 1))
def test_the_loss_equals_the_scalar_loop(batch: dict[str, torch.Tensor], clip: float, value_clip: float) -> None:
    made = ppo_loss(
        TokenScores(batch["logprob"], batch["entropy"], batch["value"]),
        Experience(batch["old"], batch["old_value"], batch["advantage"], batch["return"], batch["mask"]),
        clip=clip,
        value_clip=value_clip,
    )
    names = [name for name in batch if name != "mask"]
    rows = [
        {name: float(batch[name][place]) for name in names} for place in map(tuple, batch["mask"].nonzero().tolist())
    ]
    expected = scalar_ppo(rows, clip=clip, value_clip=value_clip)
    for name in ("policy", "value", "entropy", "divergence"):
        assert float(getattr(made, name)) == pytest.approx(expected[name], rel=1e-3, abs=1e-4)


@settings(deadline=None)
@given(batches())
def test_whitened_values_have_mean_zero_and_deviation_one_or_are_only_shifted(batch: dict[str, torch.Tensor]) -> None:
    values, mask = batch["advantage"], batch["mask"]
    made = whiten(values, mask, min_std=0.05)
    assert not made[~mask].any()
    if mask.any():
        std = float(values[mask].std(unbiased=False))
        assert abs(float(made[mask].mean())) < 1e-4
        assert float(made[mask].std(unbiased=False)) == pytest.approx(1.0 if std >= 0.05 else std, abs=1e-3)


@settings(deadline=None)
@given(st.lists(trajectories(), min_size=1, max_size=4), st.integers(0, 9))
def test_padding_keeps_ids_and_provenance_whatever_the_padding_id(made: list, pad_id: int) -> None:
    batch = pad_trajectories(made, pad_id=pad_id)
    for row, one in enumerate(made):
        ids, mask = sampled_tokens(one)
        length = int(batch.attention_BT[row].sum())
        assert batch.ids_BT[row, :length].tolist() == ids[:length]
        assert batch.mask_BT[row, :length].tolist() == mask[:length]
        assert not any(mask[length:])
        assert not batch.mask_BT[row, length:].any()
        sampled = [token for item in one.turns for token in item.sampled_ids]
        assert batch.ids_BT[row][batch.mask_BT[row]].tolist() == sampled
