from collections.abc import Callable

import pytest
import torch
from ppo_values import trajectory, turn
from tiny_models import language_model, logprobs_of, random_llama, word_tokenizer
from transformers import CohereConfig, CohereForCausalLM, GPT2Config, GPT2LMHeadModel, PreTrainedModel

from agentic_r.errors import ConfigError
from agentic_r.ppo.actor_critic import ActorCritic, score_tokens, spread
from agentic_r.ppo.batches import pad_trajectories
from agentic_r.ppo.losses import Experience, ppo_loss
from agentic_r.types import Sampling

MADE = [
    trajectory([5, 6], turn([7, 8], [9, 9, 9]), turn([10])),
    trajectory([5], turn([11, 12, 3, 4, 5, 6], [7])),
]


def gpt2(dropout: float = 0.0) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    settings = {"attn_pdrop": dropout, "embd_pdrop": dropout, "resid_pdrop": dropout}
    return GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=16, n_layer=2, n_head=2, n_positions=64, **settings))


@pytest.mark.parametrize("make", [lambda: random_llama(20), lambda: random_llama(20, tie_word_embeddings=True), gpt2])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_scores_of_a_padded_batch_are_those_of_each_row_alone(
    make: Callable[[], PreTrainedModel], temperature: float
) -> None:
    policy = make().eval()
    batch = pad_trajectories(MADE, pad_id=0)
    scored = score_tokens(policy, batch.ids_BT, batch.attention_BT, batch.mask_BT, temperature=temperature)
    logprobs_BT = spread(scored.logprobs_N, batch.mask_BT).detach()
    assert not logprobs_BT[~batch.mask_BT].any()
    for row in range(len(MADE)):
        ids, length = batch.ids_BT[row].tolist(), int(batch.attention_BT[row].sum())
        expected = logprobs_of(policy, ids[:1], ids[1:length], temperature)
        for place in batch.mask_BT[row].nonzero()[:, 0].tolist():
            assert float(logprobs_BT[row, place]) == pytest.approx(expected[place - 1], abs=1e-4)


def test_entropy_is_that_of_the_distribution_before_the_token() -> None:
    policy = random_llama(20)
    batch = pad_trajectories(MADE[:1], pad_id=0)
    scored = score_tokens(policy, batch.ids_BT, batch.attention_BT, batch.mask_BT, temperature=1.0)
    with torch.no_grad():
        log_V = policy(input_ids=batch.ids_BT).logits[0, 1].log_softmax(-1)  # before the first sampled token, at 2
    assert scored.entropy_N[0].item() == pytest.approx(float(-(log_V.exp() * log_V).sum()), abs=1e-5)


def test_what_was_sampled_is_scored_as_it_was_sampled() -> None:
    tokenizer = word_tokenizer("a b c d e f g")
    policy = random_llama(len(tokenizer))
    prompts = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]
    made = language_model(policy, tokenizer).generate(prompts, sampling=Sampling(max_tokens=9, temperature=0.8, seed=1))
    rows = [trajectory(prompt, turn(item.ids)) for prompt, item in zip(prompts, made, strict=True)]
    batch = pad_trajectories(rows, pad_id=0)
    module = ActorCritic(policy, critic="separate", temperature=0.8)
    scores = module(batch.ids_BT, batch.attention_BT, batch.mask_BT)
    sampled = [logprob for item in made for logprob in item.logprobs]
    assert scores.logprobs_BT[batch.mask_BT].tolist() == pytest.approx(sampled, abs=1e-4)


@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_values_start_at_zero_and_are_read_before_the_token(critic: str) -> None:
    module = ActorCritic(random_llama(20), critic=critic, temperature=1.0)
    batch = pad_trajectories(MADE, pad_id=0)
    assert not module(batch.ids_BT, batch.attention_BT, batch.mask_BT).values_BT.any()
    torch.nn.init.normal_(module.value_head.weight)
    values_BT = module(batch.ids_BT, batch.attention_BT, batch.mask_BT).values_BT.detach()
    with torch.no_grad():
        states_TD = (module.trunk or module.policy.model)(input_ids=batch.ids_BT[:1]).last_hidden_state[0]
        expected = module.value_head(states_TD)[:, 0]
    for place in batch.mask_BT[0].nonzero()[:, 0].tolist():
        assert float(values_BT[0, place]) == pytest.approx(float(expected[place - 1]), abs=1e-4)
    assert not values_BT[~batch.mask_BT].any()


def test_dropout_stays_off_while_training() -> None:
    module = ActorCritic(gpt2(dropout=0.5), critic="separate", temperature=1.0)
    module.train()
    assert not any(part.training for part in module.modules())
    batch = pad_trajectories(MADE, pad_id=0)
    once, again = (module(batch.ids_BT, batch.attention_BT, batch.mask_BT).logprobs_BT for _ in range(2))
    assert torch.equal(once, again)


@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_observation_tokens_get_no_gradient_of_their_own(critic: str) -> None:
    """The output layer's rows of tokens that were only observed move by what the sampled positions say, and no more."""
    policy = random_llama(20)
    module = ActorCritic(policy, critic=critic, temperature=1.0)
    torch.nn.init.normal_(module.value_head.weight)
    batch = pad_trajectories(MADE, pad_id=0)
    logprobs, values = {}, {}
    for noise in (0.0, 1e6):
        scores = module(batch.ids_BT, batch.attention_BT, batch.mask_BT)
        advantages = torch.where(batch.mask_BT, torch.ones(()), torch.tensor(noise))
        old = torch.where(batch.mask_BT, scores.logprobs_BT.detach(), torch.tensor(-noise))
        loss = ppo_loss(scores, Experience(old, old, advantages, advantages, batch.mask_BT), clip=0.2, value_clip=0.5)
        for item in (scores.logprobs_BT, scores.values_BT):
            item.retain_grad()
        module.zero_grad()
        (loss.policy + loss.value - loss.entropy).backward()
        assert scores.logprobs_BT.grad is not None
        assert scores.values_BT.grad is not None
        assert not scores.logprobs_BT.grad[~batch.mask_BT].any()
        assert not scores.values_BT.grad[~batch.mask_BT].any()
        assert scores.logprobs_BT.grad[batch.mask_BT].all()
        logprobs[noise] = [weight.grad.clone() for weight in policy.parameters()]
        values[noise] = module.value_head.weight.grad.clone()
    assert all(torch.equal(a, b) for a, b in zip(logprobs[0.0], logprobs[1e6], strict=True))
    assert torch.equal(values[0.0], values[1e6])


def test_a_model_that_changes_its_logits_after_the_output_layer_is_refused() -> None:
    config = CohereConfig(
        vocab_size=20,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        logit_scale=0.05,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=0.5,
    )
    with pytest.raises(ConfigError, match=r"agent\.model: CohereForCausalLM changes its logits"):
        ActorCritic(CohereForCausalLM(config), critic="shared", temperature=1.0)


def test_values_are_put_back_to_their_places() -> None:
    mask = torch.tensor([[False, True], [True, False]])
    assert spread(torch.tensor([3.0, 4.0]), mask).tolist() == [[0.0, 3.0], [4.0, 0.0]]
    assert spread(torch.zeros(0), torch.tensor([[False]])).tolist() == [[0.0]]
