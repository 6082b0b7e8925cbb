from importlib.resources import files

import pytest

from agentic_r.agent.prompts import load_prompts
from agentic_r.agent.protocol import TAGS


@pytest.mark.parametrize("folder", ["tiny", "search"])
@pytest.mark.parametrize("name", ["question", "invalid", "empty"])
def test_the_prompts_are_data_of_the_package(folder: str, name: str) -> None:
    assert (files("agentic_r.agent.prompts") / folder / f"{name}.txt").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("kind", ["tiny", "search", "chat"])
def test_a_question_has_one_place_in_its_prompt(kind: str) -> None:
    assert load_prompts(kind).question.count("{question}") == 1


def test_the_search_prompt_explains_every_tag_and_chat_is_the_same_text_through_the_template() -> None:
    prompts = load_prompts("search")
    assert all(f"<{tag}>" in prompts.question and f"</{tag}>" in prompts.question for tag in TAGS)
    chat = load_prompts("chat")
    assert (chat.question, chat.chat, prompts.chat) == (prompts.question, True, False)
    assert chat.fingerprint != prompts.fingerprint
