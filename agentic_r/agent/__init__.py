"""The search agent: protocol, prompts, environment, batched rollout, demonstrations."""
