"""A causal language model by transformers, in this process: tokens in, tokens out.

Owns padding, stopping, sampling and the log-probabilities of what was sampled, which are those of the plain
distribution at the given temperature: whatever penalties and cut-offs a checkpoint brings along are set aside. Lengths
come from where a row stopped, never from comparing ids with the padding token.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    StoppingCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
)

from agentic_r.artifacts.fingerprint import fingerprint_files
from agentic_r.errors import ConfigError
from agentic_r.onednn import quick_linear
from agentic_r.types import Generation, Sampling

__all__ = ["TransformersModel"]

# B rows of a batch, T token positions, V vocabulary, S stop tokens

_PARTS = (".safetensors", ".bin", ".json", ".jinja", ".model", ".txt")  # files that decide what a model does
_MARKER = "\0"  # stands for the user's text in a chat template; no tokenizer or template treats it specially


class TransformersModel:
    """Implements ``protocols.LanguageModel`` for a model and tokenizer of transformers."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, fingerprint: str) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self._fingerprint = fingerprint
        self._end_ids = _end_ids(model, tokenizer)
        self._stops: dict[tuple[str, ...], _Stops] = {}

    @classmethod
    def load(cls, path: Path, *, dtype: torch.dtype = torch.float32) -> "TransformersModel":
        """Load a Hugging Face folder from disk, on to the GPU where there is one.

        Raises:
            ConfigError: there is no model in that folder, or not all of one.
        """
        if not (path / "config.json").exists():
            raise ConfigError(f"{path}: no config.json there; give the folder of a Hugging Face causal language model")
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
            model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, local_files_only=True)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise ConfigError(f"{path}: no causal language model that can be loaded ({reason})") from None
        model.train(mode=False)
        torch.nn.Module.to(model, "cuda" if torch.cuda.is_available() else "cpu")  # transformers types its own as bare
        parts = [file for file in path.iterdir() if file.suffix in _PARTS]
        return cls(model, tokenizer, fingerprint=fingerprint_files(parts))

    @property
    def fingerprint(self) -> str:
        """Hash of the folder's weights, configuration and tokenizer."""
        return self._fingerprint

    def encode(
        self, text: str, *, control: bool = False, begins: bool = False, ends: bool = False, chat: bool = False
    ) -> list[int]:
        """Return the token ids of ``text``. See ``protocols.LanguageModel``."""
        opening, closing = self._chat_frame() if chat else ("", "")
        text = (opening if begins else "") + text + (closing if ends else "")
        ids = self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=not control)
        start = self.tokenizer.bos_token_id if begins and not chat else None
        return [*([] if start is None else [start]), *ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``; end-of-text and padding are left out, tags are kept."""
        dropped = {*self._end_ids, self.tokenizer.pad_token_id}
        kept = [token for token in ids if token not in dropped]
        return str(self.tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Sequence[int]], *, sampling: Sampling) -> list[Generation]:
        """Continue each prompt until it stops or ``max_tokens``. See ``protocols.LanguageModel``.

        Raises:
            ConfigError: the model has too few positions for the longest prompt and ``max_tokens`` after it.
        """
        if not prompts:
            return []
        width = max(len(prompt) for prompt in prompts)
        self._require_positions(width + sampling.max_tokens)
        device = self.model.device
        pad = self.tokenizer.pad_token_id or 0  # any id: the attention mask hides it
        ids_BT = torch.tensor([[pad] * (width - len(prompt)) + list(prompt) for prompt in prompts], device=device)
        mask_BT = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
        recorder = _Recorder(sampling.temperature)
        stopper = _Stopper(self._stopping(sampling.stop), width=width, device=device)
        is_greedy = sampling.temperature == 0
        plain = GenerationConfig() if is_greedy else GenerationConfig(do_sample=True, top_k=0)  # type: ignore[no-untyped-call]  # transformers' own
        with _seeded(sampling.seed, device), _configured(self.model, plain), quick_linear(self.model):
            out_BT = self.model.generate(  # type: ignore[operator]  # causal models have it, their base class does not
                input_ids=ids_BT,
                attention_mask=mask_BT,
                max_new_tokens=sampling.max_tokens,
                pad_token_id=pad,
                logits_processor=[recorder],
                stopping_criteria=StoppingCriteriaList([stopper]),
            )
        new_BT = out_BT[:, width:]
        rows = zip(new_BT.tolist(), recorder.logprobs(new_BT).tolist(), stopper.lengths(), strict=True)
        return [
            Generation(tuple(ids[:length]), tuple(logprobs[:length]), finish="length" if length is None else "stop")
            for ids, logprobs, length in rows
        ]

    def _require_positions(self, needed: int) -> None:
        has = self.model.config.to_dict().get("max_position_embeddings")  # absent where positions are unlimited
        if has is not None and needed > has:
            raise ConfigError(
                f"agent.max_context_tokens: the language model has {has} positions, but a prompt with its turn needs "
                f"{needed}; set it to {has} or lower"
            )

    def _chat_frame(self) -> tuple[str, str]:
        if not self.tokenizer.chat_template:
            raise ConfigError("agent.prompt: chat needs a language model with a chat template; use search")
        messages = [{"role": "user", "content": _MARKER}]
        text = str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        opening, _, closing = text.partition(_MARKER)
        return opening, closing

    def _stopping(self, stops: tuple[str, ...]) -> "_Stops":
        """Sort stop strings into those with a control token of their own and those to be looked for in the text."""
        if stops not in self._stops:
            own = self.tokenizer.get_added_vocab()
            strings = [stop for stop in stops if stop not in own]
            found = StopStringCriteria(tokenizer=self.tokenizer, stop_strings=strings) if strings else None
            ids = {own[stop] for stop in stops if stop in own} | self._end_ids
            self._stops[stops] = _Stops(tuple(sorted(ids)), found)
        return self._stops[stops]


@dataclass(frozen=True, slots=True)
class _Stops:
    """Token ids that end a row, and strings that do."""

    ids: tuple[int, ...]
    strings: StopStringCriteria | None


class _Recorder(LogitsProcessor):
    """Applies the temperature and keeps the log-probability of every sampled token."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature or 1.0  # greedy: log-probabilities of the model as it is
        self._last_BV: torch.Tensor | None = None
        self._kept: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Note the last token and scale the next one's logits; transformers calls it before each draw."""
        self._keep(input_ids[:, -1])
        scaled_BV = scores.float() / self._temperature
        self._last_BV = torch.log_softmax(scaled_BV, dim=-1)
        return scaled_BV  # type: ignore[return-value]  # a float tensor, as promised

    def _keep(self, token_B: torch.Tensor) -> None:
        if self._last_BV is not None:
            self._kept.append(self._last_BV.gather(1, token_B[:, None])[:, 0])

    def logprobs(self, new_BT: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities (B, T) of the generated tokens."""
        self._keep(new_BT[:, -1])
        return torch.stack(self._kept, dim=1)


class _Stopper(StoppingCriteria):
    """Ends rows at a stop token or stop string, and remembers where."""

    def __init__(self, stops: _Stops, *, width: int, device: torch.device) -> None:
        self._ids_S = torch.tensor(stops.ids, device=device)
        self._strings = stops.strings
        self._width = width
        self._ends_B: torch.Tensor | None = None

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs: object) -> torch.BoolTensor:
        """Return which rows are over; transformers calls it after each draw."""
        now_B = torch.isin(input_ids[:, -1], self._ids_S)
        if self._strings is not None:
            new_BT = input_ids[:, self._width :]  # a tag that the prompt ends with is no stop
            now_B = now_B | self._strings(new_BT, scores)
        if self._ends_B is None:
            self._ends_B = torch.full_like(input_ids[:, 0], -1)
        length = input_ids.shape[1] - self._width
        self._ends_B = torch.where(now_B & (self._ends_B < 0), length, self._ends_B)
        return self._ends_B >= 0  # type: ignore[return-value]  # a bool tensor, as promised

    def lengths(self) -> list[int | None]:
        """Return each row's number of generated tokens, its stop included; None where it did not stop."""
        assert self._ends_B is not None, "generate() asks at least once"
        return [end if end >= 0 else None for end in self._ends_B.tolist()]


def _end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Return all end-of-text ids: the tokenizer's, and the model's one or several."""
    ends = model.generation_config.eos_token_id if model.generation_config is not None else None
    listed = ends if isinstance(ends, list) else [ends]
    return {int(token) for token in (tokenizer.eos_token_id, *listed) if token is not None}


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Draw from a generator of our own; the global one is afterwards as it was."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def _configured(model: PreTrainedModel, plain: GenerationConfig) -> Iterator[None]:
    """Set a checkpoint's own sampling settings (top-k, repetition penalty ...) aside: training scores without them."""
    own = model.generation_config
    model.generation_config = plain
    try:
        yield
    finally:
        model.generation_config = own
