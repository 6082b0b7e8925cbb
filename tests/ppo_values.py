"""Small trajectories and the oracle of PPO: one loop over scalars."""

import math
from collections.abc import Sequence

from agentic_r.types import Trajectory, Turn


def turn(sampled: Sequence[int], observed: Sequence[int] = (), *, action: str = "search", state: str = "ok") -> Turn:
    return Turn(
        text="",
        action=action,
        content="",
        sampled_ids=tuple(sampled),
        logprobs=(-1.0,) * len(sampled),
        observation_ids=tuple(observed),
        tool_state=state if action == "search" else "none",
    )


def trajectory(
    prompt: Sequence[int], *turns: Turn, correct: float = 0.0, f1: float | None = None, status: str = "answered"
) -> Trajectory:
    return Trajectory("q", 0, tuple(prompt), turns, status, "x", correct, correct if f1 is None else f1)


def scalar_gae(
    reward: float, values: Sequence[float], kls: Sequence[float], *, kl: float, gamma: float, lam: float
) -> list[float]:
    """A_i = sum over j >= i of (gamma lam)^(j - i) delta_j, written out."""
    last = len(values) - 1
    deltas = []
    for step, value in enumerate(values):
        own = -kl * kls[step] + (reward if step == last else 0.0)
        deltas.append(own + (gamma * values[step + 1] if step < last else 0.0) - value)
    return [
        sum((gamma * lam) ** (later - step) * deltas[later] for later in range(step, last + 1))
        for step in range(last + 1)
    ]


def scalar_ppo(rows: Sequence[dict[str, float]], *, clip: float, value_clip: float) -> dict[str, float]:
    """The loss and its watches over sampled tokens; each is a dict of what belongs to it."""
    total = dict.fromkeys(("policy", "value", "entropy", "clipped_share", "divergence"), 0.0)
    for row in rows:
        log_ratio = max(-20.0, min(20.0, row["logprob"] - row["old"]))
        ratio = math.exp(log_ratio)
        plain = -row["advantage"] * ratio
        bounded = -row["advantage"] * max(1 - clip, min(1 + clip, ratio))
        moved = max(-value_clip, min(value_clip, row["value"] - row["old_value"]))
        errors = ((row["value"] - row["return"]) ** 2, (row["old_value"] + moved - row["return"]) ** 2)
        total["policy"] += max(plain, bounded)
        total["value"] += 0.5 * max(errors)
        total["entropy"] += row["entropy"]
        total["clipped_share"] += float(bounded > plain)
        total["divergence"] += ratio - 1 - log_ratio
    return {name: value / max(len(rows), 1) for name, value in total.items()}
