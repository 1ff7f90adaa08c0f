"""Random data, checkpoints and tokenizers for the scripts of scripts.py: what they would load or download, small, made on the spot.

In: a name of MAKERS, and the working folder of a script (the current one), with its sources in it. Out: files in that folder.

    cd FOLDER && python .../support/script_data.py NAME

A process of its own, for a checkpoint needs the script's own model, and what is imported for it may not be in the way of another
script's. Everything is drawn from one seed: two folders are the same.
"""

from __future__ import annotations

import base64
import importlib
import json
import pickle
import random
import string
import struct
import sys
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

LETTERS = "\n !$&',-.3:;?" + string.ascii_letters
"""The 65 characters of tiny Shakespeare."""


def characters() -> None:
    """A text as nanoGPT's data/shakespeare_char/prepare.py leaves it: numbers of characters, and a table of them."""
    folder = _folder("data/shakespeare_char")
    for split, length in (("train", 100_000), ("val", 10_000)):
        numbers = [random.randrange(len(LETTERS)) for _ in range(length)]
        (folder / f"{split}.bin").write_bytes(struct.pack(f"<{length}H", *numbers))
    table = {"vocab_size": len(LETTERS), "itos": dict(enumerate(LETTERS)), "stoi": {one: at for at, one in enumerate(LETTERS)}}
    (folder / "meta.pkl").write_bytes(pickle.dumps(table))


def nanogpt_checkpoint() -> None:
    """A checkpoint of nanoGPT as its train.py saves it, untrained."""
    characters()
    model = importlib.import_module("model")
    sizes = {"n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": 64, "bias": False, "vocab_size": len(LETTERS), "dropout": 0.0}
    weights = model.GPT(model.GPTConfig(**sizes)).state_dict()
    torch.save({"model": weights, "model_args": sizes, "config": {"dataset": "shakespeare_char"}}, _folder("out") / "ckpt.pt")


def gpt_fast_checkpoint() -> None:
    """A checkpoint of gpt-fast's smallest model, and a byte-pair table of Llama 3's form that has all of its tokens."""
    folder = _folder("checkpoints/llama-3/stories15M")
    model = importlib.import_module("model")
    transformer = model.Transformer.from_name("stories15M")
    torch.save(transformer.state_dict(), folder / "model.pth")
    count = transformer.config.vocab_size - 256  # the others are special tokens
    pieces = [bytes([one]) for one in range(256)] + [bytes([at // 256, at % 256]) for at in range(count - 256)]
    lines = [f"{base64.b64encode(piece).decode()} {rank}\n" for rank, piece in enumerate(pieces)]
    (folder / "tokenizer.model").write_text("".join(lines), encoding="ascii")


def nanochat_checkpoint() -> None:
    """A tokenizer that nanochat trains on random sentences, and a checkpoint of two layers under the name of a fine-tuned one."""
    cache = _folder("cache")
    tokenizer = importlib.import_module("nanochat.tokenizer").RustBPETokenizer.train_from_iterator(_sentences(2000), 1024)
    tokenizer.save(str(cache / "tokenizer"))
    gpt = importlib.import_module("nanochat.gpt")
    width = {"n_layer": 2, "n_head": 4, "n_kv_head": 4, "n_embd": 128}
    sizes = {"sequence_len": 512, "vocab_size": tokenizer.get_vocab_size(), **width}
    model = gpt.GPT(gpt.GPTConfig(**sizes))
    model.init_weights()
    folder = _folder("cache/chatsft_checkpoints/d2")
    torch.save(model.state_dict(), folder / "model_000001.pt")
    (folder / "meta_000001.json").write_text(json.dumps({"model_config": {**sizes, "window_pattern": "SSSL"}}), encoding="ascii")


def digits() -> None:
    """MNIST's four files, of noise, in the folder beside, where the examples look."""
    folder = _folder("../data/MNIST/raw")
    for split, count in (("train", 2_000), ("t10k", 500)):
        images = struct.pack(">4I", 0x803, count, 28, 28) + random.randbytes(count * 28 * 28)
        (folder / f"{split}-images-idx3-ubyte").write_bytes(images)
        labels = bytes(random.randrange(10) for _ in range(count))
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels)


def corpus() -> None:
    """A corpus as WikiText-2 lies in the examples, of random words."""
    folder = _folder("data/wikitext-2")
    for split, count in (("train", 6_000), ("valid", 300), ("test", 300)):
        (folder / f"{split}.txt").write_text("".join(f" {one} \n" for one in _sentences(count)), encoding="utf-8")


def noise() -> None:
    """Twelve seconds of noise, and a checkpoint of Whisper with all of its tokens and two narrow layers on each side."""
    with wave.open("noise.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(random.randbytes(2 * 16_000 * 12))
    model = importlib.import_module("whisper.model")
    width = {"n_audio_state": 64, "n_audio_head": 2, "n_audio_layer": 2, "n_text_state": 64, "n_text_head": 2, "n_text_layer": 2}
    sizes = {"n_mels": 80, "n_audio_ctx": 1500, "n_vocab": 51865, "n_text_ctx": 448, **width}
    weights = model.Whisper(model.ModelDimensions(**sizes)).state_dict()
    torch.save({"dims": sizes, "model_state_dict": weights}, "tiny.pt")


def labeled_sentences() -> None:
    """Sentences with labels, a vocabulary of word pieces, and an untrained BERT, all in the forms that transformers loads."""
    transformers = importlib.import_module("transformers")
    folder = _folder("bert")
    letters = string.ascii_lowercase
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{one}" for one in letters)]
    transformers.BertTokenizer(vocab={piece: at for at, piece in enumerate(pieces)}).save_pretrained(folder)
    width = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    config = transformers.BertConfig(vocab_size=len(pieces), num_labels=2, **width)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    lines = [json.dumps({"sentence": one, "label": random.randrange(2)}) + "\n" for one in _sentences(256)]
    Path("train.json").write_text("".join(lines[:192]), encoding="ascii")
    Path("validation.json").write_text("".join(lines[192:]), encoding="ascii")


def easy_cart_pole() -> None:
    """A plug-in of gymnasium under which CartPole is solved at a sixth of the reward: a script without a last episode ends."""
    lines = ("from gymnasium.envs.registration import registry", "def ease():", "    registry['CartPole-v1'].reward_threshold = 80")
    Path("easy_cart_pole.py").write_text("\n".join((*lines, "")), encoding="ascii")
    folder = _folder("easy_cart_pole-1.dist-info")
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: easy-cart-pole\nVersion: 1\n", encoding="ascii")
    (folder / "entry_points.txt").write_text("[gymnasium.envs]\n__root__ = easy_cart_pole:ease\n", encoding="ascii")


def _sentences(count: int) -> Iterator[str]:
    """Of words that recur."""
    words = ["".join(random.choices(string.ascii_lowercase, k=random.randint(2, 8))) for _ in range(1000)]
    for _ in range(count):
        yield " ".join(random.choices(words, k=random.randint(8, 24)))


def _folder(path: str) -> Path:
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


MAKERS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        characters, nanogpt_checkpoint, gpt_fast_checkpoint, nanochat_checkpoint, digits, corpus, noise, labeled_sentences,
        easy_cart_pole,
    )
}  # fmt: skip

if __name__ == "__main__":
    random.seed(1)
    torch.manual_seed(1)
    sys.path.insert(0, "")
    MAKERS[sys.argv[1]]()
