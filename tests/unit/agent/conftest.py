from collections.abc import Callable

import pytest

from agentic_r.config import AgentConfig


@pytest.fixture
def make_config() -> Callable[..., AgentConfig]:
    def make(**settings: object) -> AgentConfig:
        sizes = {"max_turns": 3, "max_turn_tokens": 80, "max_observation_tokens": 400, "max_context_tokens": 4000}
        tree = {"model": {"kind": "tiny", "path": "unused"}, "prompt": "tiny", "batch_size": 2, **sizes, **settings}
        return AgentConfig.model_validate(tree)

    return make
