"""Estimates of memory and disk, worked out by hand."""

from agentic_r import needs
from agentic_r.config import AgentConfig, ContrastiveConfig, PpoConfig, WarmStartConfig
from agentic_r.encoder.packages import EncoderShape
from agentic_r.llm.shape import ModelShape

SHAPE = ModelShape(parameters=1000, width=4, layers=2, feed_forward=8, key_value_width=2, vocabulary=10, max_tokens=64)
AGENT = AgentConfig.model_validate(
    {
        "model": {"kind": "pretrained", "path": "m"},
        "max_turns": 2,
        "max_turn_tokens": 10,
        "max_observation_tokens": 30,
        "max_context_tokens": 1000,
        "batch_size": 3,
    }
)
TOKENS = 200 + 2 * 10 + 30  # prompt, two turns, one observation
NUMBERS = 2 * (8 * 4 + 2 * 2 + 4 * 8)  # a token's activations: 2 layers


def ppo(**changes):
    return PpoConfig.model_validate({"rollouts_per_step": 4, "minibatch_size": 2, **changes})


def test_the_context_is_what_the_budgets_allow():
    assert needs.context_tokens(AGENT) == TOKENS
    assert needs.context_tokens(AGENT.model_copy(update={"max_context_tokens": 100})) == 100


def test_a_shared_critic_takes_five_numbers_a_weight_and_a_separate_one_nine():
    shared = needs.ppo_need(SHAPE, dtype="float32", agent=AGENT, ppo=ppo(critic="shared"))
    separate = needs.ppo_need(SHAPE, dtype="float32", agent=AGENT, ppo=ppo(critic="separate"))
    assert (shared.fixed_bytes, separate.fixed_bytes) == (5 * 1000 * 4, 9 * 1000 * 4)
    logits = 20 * 4 * 4 * 10  # 20 sampled tokens, 4 float32 copies of 10 logits
    assert shared.estimated_bytes == 2 * (TOKENS * NUMBERS * 4 + logits)
    assert separate.estimated_bytes == 2 * (TOKENS * 2 * NUMBERS * 4 + logits)


def test_rollouts_count_where_their_cache_is_larger_than_an_update():
    wide = ModelShape(parameters=1, width=1, layers=1, feed_forward=1, key_value_width=500, vocabulary=1, max_tokens=64)
    need = needs.ppo_need(wide, dtype="bfloat16", agent=AGENT, ppo=ppo(minibatch_size=1, critic="shared"))
    update = TOKENS * (8 + 2 * 500 + 4) * 2 + 20 * 4 * 4
    cache = 3 * TOKENS * 2 * 500 * 2  # 3 rows at once, keys and values
    assert cache > update
    assert need.estimated_bytes == cache


def test_a_warm_start_holds_logits_at_every_token():
    need = needs.warm_start_need(SHAPE, dtype="float32", agent=AGENT, warm_start=WarmStartConfig(batch_size=2))
    assert need.fixed_bytes == 4 * 1000 * 4
    assert need.estimated_bytes == 2 * TOKENS * (NUMBERS * 4 + 4 * 4 * 10)


def test_the_retriever_and_its_index():
    encoder = EncoderShape(parameters=100, width=4, layers=3, max_tokens=None)
    need = needs.retriever_need(encoder, tokens=50, contrastive=ContrastiveConfig(mini_batch_size=2))
    assert (need.fixed_bytes, need.estimated_bytes) == (4 * 4 * 100, 2**28 + 2 * 50 * 3 * 17 * 4 * 4)
    assert needs.index_need(passages=7, width=4).total_bytes == 7 * 4 * 4


def test_disk_holds_models_two_checkpoints_of_three_numbers_and_vectors():
    size = needs.disk_bytes(language_model=10, encoder=5, vectors=100, dtype="float32", iterations=2, critic="separate")
    warm = 40 * (1 + 2 * 3)
    iteration = 40 * (1 + 2 * 3 * 2) + 20 * (1 + 2 * 3) + 100
    assert size == warm + 20 + 100 + 2 * iteration


def test_a_need_is_told_with_its_two_parts():
    line = needs.Need("agent (PPO)", 9_900_000_000, 7_400_000_000).line()
    assert line == (
        "agent (PPO): about 17.3 GB of memory at its peak "
        "(9.9 GB by the number of weights; 7.4 GB for the longest contexts, an estimate)"
    )
    assert needs.Need("index", 31_000_000, 0).line() == "index: about 0.03 GB of memory at its peak"
