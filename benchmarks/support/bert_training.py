"""Two steps of BERT with transformers' Trainer, on files of the folder it runs in: a script as people write it, for scripts.py.

    python bert_training.py --model bert --train train.json --validation validation.json --steps 2

The other scripts there are others' own. Of this one everybody has their own version; transformers' examples ask a hub for a metric.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Lines of JSON with a sentence and a label, as tokens."""

    def __init__(self, path: str, tokenizer: Any) -> None:
        with open(path) as file:
            rows = [json.loads(line) for line in file]
        self.tokens = tokenizer([row["sentence"] for row in rows], padding="max_length", truncation=True, max_length=64)
        self.labels = [row["label"] for row in rows]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        return {**{name: torch.tensor(rows[at]) for name, rows in self.tokens.items()}, "labels": torch.tensor(self.labels[at])}


def accuracy(predicted: Any) -> dict[str, float]:
    logits, labels = predicted
    return {"accuracy": float((np.argmax(logits, axis=-1) == labels).mean())}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--validation", required=True)
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = BertForSequenceClassification.from_pretrained(options.model)
    trainer = Trainer(
        model=model,
        args=TrainingArguments("trained", max_steps=options.steps, per_device_train_batch_size=16, report_to="none"),
        train_dataset=Sentences(options.train, tokenizer),
        eval_dataset=Sentences(options.validation, tokenizer),
        compute_metrics=accuracy,
        processing_class=tokenizer,
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model()


if __name__ == "__main__":
    main()
