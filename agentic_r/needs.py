"""What a run will need: memory and disk, estimated from counts of weights before anything is loaded.

Owns the arithmetic. Weights, gradients and AdamW's two moments are counted (4 numbers a trained weight); activations
are estimates, from above, since they take the longest context the budgets allow. No torch.
"""

from dataclasses import dataclass

from agentic_r.config import AgentConfig, ContrastiveConfig, PpoConfig, WarmStartConfig
from agentic_r.encoder.packages import EncoderShape
from agentic_r.llm.shape import ModelShape

__all__ = ["Need", "continuation_need", "disk_bytes", "index_need", "ppo_need", "retriever_need", "warm_start_need"]

BYTES = {"float32": 4, "bfloat16": 2}

_TRAINED = 4  # numbers kept for a trained weight: itself, its gradient, AdamW's two moments
_CHECKPOINT = 3  # numbers stored for it: itself and the moments
_KEPT_CHECKPOINTS = 2
_PROMPT_TOKENS = 200  # the longest of our prompts, with a long question
_ENCODER_NUMBERS = 17  # kept for the backward pass, times the width, for each token and layer of a BERT
_LOGIT_COPIES = 4  # float32 tensors over the vocabulary alive at once: logits, their log-softmax, and gradients


@dataclass(frozen=True, slots=True)
class Need:
    """Memory of one stage: ``fixed_bytes`` follow from the number of weights, ``estimated_bytes`` are an estimate."""

    stage: str
    fixed_bytes: int
    estimated_bytes: int

    @property
    def total_bytes(self) -> int:
        """Both."""
        return self.fixed_bytes + self.estimated_bytes

    def line(self) -> str:
        """All of it in one line."""
        line = f"{self.stage}: about {gigabytes(self.total_bytes)} of memory at its peak"
        if not self.estimated_bytes:
            return line
        fixed, estimated = gigabytes(self.fixed_bytes), gigabytes(self.estimated_bytes)
        return f"{line} ({fixed} by the number of weights; {estimated} for the longest contexts, an estimate)"


def gigabytes(count: int) -> str:
    """Write ``2_700_000_000`` as ``2.7 GB`` and ``31_000_000`` as ``0.03 GB``; less than that has no use."""
    if 0 < count < 5_000_000:
        return "less than 0.01 GB"
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e9:.2f} GB"


def context_tokens(agent: AgentConfig) -> int:
    """Return the longest context that the budgets allow."""
    turns = agent.max_turns * agent.max_turn_tokens + (agent.max_turns - 1) * agent.max_observation_tokens
    return min(agent.max_context_tokens, _PROMPT_TOKENS + turns)


def warm_start_need(shape: ModelShape, *, dtype: str, agent: AgentConfig, warm_start: WarmStartConfig) -> Need:
    """Train one model on demonstrations, with logits over the whole context."""
    tokens = warm_start.batch_size * context_tokens(agent)
    activations = tokens * (_activation_numbers(shape) * BYTES[dtype] + _LOGIT_COPIES * 4 * shape.vocabulary)
    return Need("warm_start", _TRAINED * shape.parameters * BYTES[dtype], activations)


def ppo_need(shape: ModelShape, *, dtype: str, agent: AgentConfig, ppo: PpoConfig) -> Need:
    """Train all weights by PPO: actor and separate critic, frozen reference; the larger of update and rollout."""
    size = BYTES[dtype]
    num_trained = 2 if ppo.critic == "separate" else 1
    fixed = (_TRAINED * num_trained + 1) * shape.parameters * size
    tokens = context_tokens(agent)
    sampled = min(agent.max_turns * agent.max_turn_tokens, tokens)
    update = ppo.minibatch_size * (
        tokens * num_trained * _activation_numbers(shape) * size + sampled * _LOGIT_COPIES * 4 * shape.vocabulary
    )
    rollout = _cache_bytes(shape, rows=min(agent.batch_size, ppo.rollouts_per_step), tokens=tokens, size=size)
    return Need("agent (PPO)", fixed, max(update, rollout))


def continuation_need(shape: ModelShape, *, dtype: str, agent: AgentConfig, batch_size: int) -> Need:
    """Continue the agent from candidates: one model, a cache for each row of the batch."""
    cache = _cache_bytes(shape, rows=batch_size, tokens=context_tokens(agent), size=BYTES[dtype])
    logits = 2 * 4 * batch_size * shape.vocabulary
    return Need("correctness", shape.parameters * BYTES[dtype], cache + logits)


def retriever_need(shape: EncoderShape, *, tokens: int, contrastive: ContrastiveConfig) -> Need:
    """Train the encoder, whose weights stay float32: the chunks kept for the backward pass, and one being computed."""
    chunk = contrastive.mini_batch_size * tokens * shape.layers * _ENCODER_NUMBERS * shape.width * 4
    return Need("retriever", _TRAINED * 4 * shape.parameters, contrastive.activation_bytes + chunk)


def index_need(*, passages: int, width: int) -> Need:
    """Hold a dense index in memory: one float32 vector a passage."""
    return Need("index", 4 * width * passages, 0)


def disk_bytes(*, language_model: int, encoder: int, vectors: int, dtype: str, iterations: int, critic: str) -> int:
    """Estimate what a run's folder takes: agents, encoders, vectors, and the checkpoints that trainings keep.

    Args:
        language_model: Its number of weights.
        encoder: Its number of weights.
        vectors: Bytes of one index.
        dtype: Type of the language model's weights.
        iterations: Of the loop.
        critic: "separate" doubles an agent's checkpoints.
    """
    agent = language_model * BYTES[dtype]
    warm = agent * (1 + _KEPT_CHECKPOINTS * _CHECKPOINT)
    trained = agent * (1 + _KEPT_CHECKPOINTS * _CHECKPOINT * (2 if critic == "separate" else 1))
    retriever = 4 * encoder * (1 + _KEPT_CHECKPOINTS * _CHECKPOINT)
    return warm + 4 * encoder + vectors + iterations * (trained + retriever + vectors)


def _activation_numbers(shape: ModelShape) -> int:
    """Numbers kept for the backward pass, for each token: norms, attention, gate, up, their product.

    Our count for Llama-like layers without recomputing; a measured model (30 layers of 576) keeps 0.5% more.
    """
    layer = 8 * shape.width + 2 * shape.key_value_width + 4 * shape.feed_forward
    return shape.layers * layer


def _cache_bytes(shape: ModelShape, *, rows: int, tokens: int, size: int) -> int:
    return rows * tokens * shape.layers * 2 * shape.key_value_width * size
