"""Training speed beside peers: target tokens per second of the same shape on the same real batches, in turns.

    python benchmarks/training.py [--rounds 12]       needs: pip install -e '.[bench]' and REGARD_DATA

One update is forward, backward, clipping and a fused AdamW step. Peers: Marian as in the `transformers` package, and
`torch.nn.Transformer` with embeddings and an output layer around it. Dropout 0.1 everywhere, float32 unless said. Run
it alone. The table is appended to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.core.batch import Batch
from regard.data.loader import Loader
from regard.data.parallel import ParallelText, encode
from regard.data.text import make_tokenizer
from regard.models import config_of, make_model
from regard.tasks.translation import Translation
from regard.training.config import TrainingConfig
from regard.training.optim import make_optimizer

D, HEADS, FF, LAYERS, DROPOUT, SMOOTHING = 128, 4, 256, 4, 0.1, 0.1
Step = Callable[[Batch], None]


def batches(count: int) -> tuple[list[Batch], int]:
    """Real batches of Multi30k English → German, 10k joint BPE."""
    if "REGARD_DATA" not in os.environ:
        sys.exit("Set REGARD_DATA to the folder that holds multi30k.")
    folder = Path(os.environ["REGARD_DATA"]) / "multi30k"
    text = ParallelText(folder / "train.en.gz", folder / "train.de.gz")
    tokenizer = make_tokenizer("bpe", (line for pair in text.pairs() for line in pair), vocab_size=10000)
    with tempfile.TemporaryDirectory() as place:
        pairs = encode(text.pairs(), tokenizer, tokenizer, Path(place))
        loader = Loader(pairs, tokens_per_batch=2048, seed=1, pad=0, bos=2, eos=3)
        found = [batch for batch, _ in zip(loader.epoch(0), range(count), strict=False)]
    return found, tokenizer.vocab_size


def updating(model: nn.Module, loss: Callable[[Batch], Tensor], *, low: bool = False) -> Step:
    optimizer = make_optimizer(model.train(), TrainingConfig(max_steps=1))

    def step(batch: Batch) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            value = loss(batch)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def ours(vocab: int, *, low: bool = False) -> Step:
    sizes = {"source_vocab": vocab, "target_vocab": vocab, "dropout": DROPOUT}
    model = make_model("transformer", config_of("transformer", sizes, size="tiny"))
    task = Translation(label_smoothing=SMOOTHING)
    return updating(model, lambda batch: task.loss(model, batch) / task.count(batch), low=low)


def marian(vocab: int) -> Step:
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=vocab, d_model=D, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=FF, decoder_ffn_dim=FF, dropout=DROPOUT,
        activation_function="relu",
        pad_token_id=0, decoder_start_token_id=2, eos_token_id=3, forced_eos_token_id=3, max_position_embeddings=512,
    )  # fmt: skip
    model = MarianMTModel(config)

    def loss(batch: Batch) -> Tensor:
        target = batch["target"]
        out = model(
            input_ids=batch["source"], attention_mask=batch["source_mask"].long(), decoder_input_ids=target[:, :-1]
        )
        return smoothed(out.logits, batch)

    return updating(model, loss)


class TorchTransformer(nn.Module):
    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, D)
        self.places = nn.Embedding(512, D)
        self.inner = nn.Transformer(D, HEADS, LAYERS, LAYERS, FF, DROPOUT, batch_first=True)

    def forward(self, batch: Batch) -> Tensor:
        source, target = batch["source"], batch["target"][:, :-1]
        x, y = (self.embed(ids) * D**0.5 + self.places.weight[: ids.shape[1]] for ids in (source, target))
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden_source = ~batch["source_mask"]
        out = self.inner(
            x, y, tgt_mask=future, tgt_is_causal=True, src_key_padding_mask=hidden_source,
            memory_key_padding_mask=hidden_source,
        )  # fmt: skip
        return out @ self.embed.weight.T


def torchs(vocab: int) -> Step:
    model = TorchTransformer(vocab)
    return updating(model, lambda batch: smoothed(model(batch), batch))


def smoothed(logits: Tensor, batch: Batch) -> Tensor:
    labels = batch["target"][:, 1:].masked_fill(~batch["target_mask"][:, 1:], -100)
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=SMOOTHING)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    rounds = parser.parse_args().rounds
    torch.manual_seed(0)
    some, vocab = batches(rounds + 2)
    steps = {
        "regard": ours(vocab), "regard, bfloat16": ours(vocab, low=True),
        "transformers (Marian)": marian(vocab), "torch.nn.Transformer": torchs(vocab),
    }  # fmt: skip
    speeds: dict[str, list[float]] = {name: [] for name in steps}
    for turn, batch in enumerate(some):
        for name, step in steps.items():
            start = time.perf_counter()
            step(batch)
            if turn >= 2:
                speeds[name].append(Translation().count(batch) / (time.perf_counter() - start))
    lines = ["| trained by | target tokens/s | regard is |", "|---|---|---|"]
    for name, found in speeds.items():
        ratio = median(mine / theirs for mine, theirs in zip(speeds["regard"], found, strict=True))
        lines.append(f"| {name} | {median(found):,.0f} | {ratio:.2f}× as fast |")
    table = "\n".join(lines)
    print(table)
    results = Path(__file__).with_name("RESULTS.md")
    what = f"Transformer tiny ({LAYERS}+{LAYERS} layers, d {D}), Multi30k, 10k BPE, {torch.get_num_threads()} threads"
    head = f"\n## Training\n\n{what}, `python benchmarks/training.py`:\n\n"
    before = results.read_text().split("\n## Training\n")[0] if results.exists() else "# Results\n"
    results.write_text(before.rstrip("\n") + "\n" + head + table + "\n")


if __name__ == "__main__":
    main()
