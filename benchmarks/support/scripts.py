"""The scripts of scripts.py: whose they are, which files of a checkout they need, what is made for them, and how they are called.

Each is called with its own options, so that a plain run takes seconds on one thread of a CPU. No file of theirs is changed.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Repository:
    """A public repository of GitHub at a commit; a checkout of it is expected under its own name. None where a package has it."""

    name: str
    commit: str


NANOGPT = Repository("karpathy/nanoGPT", "3adf61e154c3fe3fca428ad6bc3818b27a3b8291")
MINGPT = Repository("karpathy/minGPT", "37baab71b9abea1b76ab957409a1cc2fbfba8a26")
NANOCHAT = Repository("karpathy/nanochat", "92d63d4e8bb4df75c3b71618f31ddde2378b2bcd")
GPT_FAST = Repository("pytorch-labs/gpt-fast", "32971d3129541c5bfb4f715abc33d1c5f408d204")
CLEANRL = Repository("vwxyzjn/cleanrl", "fe8d8a03c41a7ef5b523e2e354bd01c363e786bb")
EXAMPLES = Repository("pytorch/examples", "77f55b912142e11fcfdf5b530231fb9c52f181e8")


@dataclass(frozen=True)
class Script:
    """One script: its words are a path, in its working folder, and its own options."""

    name: str
    repository: Repository | None
    paths: tuple[str, ...]
    words: tuple[str, ...]
    data: str = ""
    """The name of what script_data.py makes for it."""
    within: str = "."
    """Where in the checkout its working folder is."""
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Modules that are no part of a checkout."""


SCRIPTS = (
    Script(
        "nanogpt_train", NANOGPT, ("train.py", "model.py", "configurator.py"),
        ("train.py", "--device=cpu", "--compile=False", "--dtype=float32", "--dataset=shakespeare_char", "--eval_interval=50",
         "--eval_iters=5", "--log_interval=10", "--max_iters=70", "--block_size=64", "--batch_size=8", "--n_layer=4", "--n_head=4",
         "--n_embd=128", "--gradient_accumulation_steps=1", "--lr_decay_iters=70", "--warmup_iters=20"),
        "characters",
    ),
    Script(
        "nanogpt_sample", NANOGPT, ("sample.py", "model.py", "configurator.py"),
        ("sample.py", "--device=cpu", "--dtype=float32", "--num_samples=4", "--max_new_tokens=300"),
        "nanogpt_checkpoint", needs=("tiktoken",),
    ),
    Script(
        "mingpt_adder", MINGPT, ("mingpt", "projects/adder"),
        ("projects/adder/adder.py", "--trainer.max_iters=120", "--trainer.num_workers=2"),
        environment={"PYTHONPATH": "."},
    ),
    Script(
        "gpt_fast_generate", GPT_FAST, ("generate.py", "model.py", "tokenizer.py", "tp.py", "quantize.py"),
        ("generate.py", "--device", "cpu", "--num_samples", "2", "--max_new_tokens", "50", "--top_k", "50",
         "--checkpoint_path", "checkpoints/llama-3/stories15M/model.pth"),
        "gpt_fast_checkpoint", needs=("sentencepiece", "tiktoken"),
    ),
    Script(
        "nanochat_cli", NANOCHAT, ("nanochat", "scripts"),
        ("scripts/chat_cli.py", "--device-type", "cpu", "--prompt", "Why is the sky blue?"),
        "nanochat_checkpoint", environment={"PYTHONPATH": ".", "NANOCHAT_BASE_DIR": "cache"},
        needs=("rustbpe", "tiktoken", "filelock"),
    ),
    Script(
        "cleanrl_ppo", CLEANRL, ("cleanrl/ppo_continuous_action.py", "cleanrl_utils"),
        ("cleanrl/ppo_continuous_action.py", "--no-cuda", "--total-timesteps", "1024", "--num-steps", "512"),
        environment={"PYTHONPATH": "."}, needs=("gymnasium", "mujoco", "tyro", "tensorboard"),
    ),
    Script(
        "cleanrl_sac", CLEANRL, ("cleanrl/sac_continuous_action.py", "cleanrl_utils"),
        ("cleanrl/sac_continuous_action.py", "--no-cuda", "--total-timesteps", "400", "--learning-starts", "280",
         "--buffer-size", "10000"),
        environment={"PYTHONPATH": "."}, needs=("gymnasium", "mujoco", "tyro", "tensorboard"),
    ),
    Script(
        "mnist", EXAMPLES, ("mnist",), ("main.py", "--epochs", "1", "--batch-size", "64", "--test-batch-size", "500"),
        "digits", within="mnist", needs=("torchvision",),
    ),
    Script(
        "vae", EXAMPLES, ("vae",), ("main.py", "--epochs", "4"), "digits", within="vae", needs=("torchvision",),
    ),
    Script(
        "word_language_model", EXAMPLES, ("word_language_model",),
        ("main.py", "--epochs", "1", "--emsize", "64", "--nhid", "64", "--log-interval", "20"),
        "corpus", within="word_language_model",
    ),
    Script(
        "reinforce", EXAMPLES, ("reinforcement_learning",), ("reinforce.py", "--seed", "1"),
        "easy_cart_pole", within="reinforcement_learning", environment={"PYTHONPATH": "."}, needs=("gymnasium",),
    ),
    Script(
        "whisper", None, (),
        (str(shutil.which("whisper", path=str(Path(sys.executable).parent)) or "whisper"), "noise.wav", "--model", "tiny.pt",
         "--language", "en", "--fp16", "False", "--temperature_increment_on_fallback", "None"),
        "noise", needs=("whisper",),
    ),
    Script(
        "bert_trainer", None, (),
        (str(Path(__file__).with_name("bert_training.py")), "--model", "bert", "--train", "train.json",
         "--validation", "validation.json", "--steps", "2"),
        "labeled_sentences", needs=("transformers", "accelerate"),
    ),
)  # fmt: skip
