"""Training speed beside peers: target tokens per second of the same shape on the same real batches, in turns.

    python benchmarks/training.py [--size base] [--rounds 12]       needs: pip install -e '.[bench]' and REGARD_DATA

One update is forward, loss, backward, clipping and a fused AdamW step. Peers: Marian as in the `transformers` package,
and `torch.nn.Transformer` with embeddings and an output layer around it. All have dropout of the same rate at the same
four kinds of places: the sum of embedding and position, the output of each sub-layer, the attention weights, and the
wide layer of each feed-forward network. All get labels; Marian works out the loss itself and keeps no cache of keys and
values. Marian's own loss has no label smoothing, so none has. Float32 unless said. What each is made of is printed and
stands above the table in benchmarks/RESULTS.md. The share of the machine's product rate counts the operations of all
products of regard's update (torch.utils.flop_counter). Run it alone.
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
from typing import NamedTuple

import torch
from _results import add_results, put
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from regard.core.batch import Batch
from regard.data.loader import Loader
from regard.data.parallel import ParallelText, encode
from regard.data.text import make_tokenizer
from regard.models import config_of, make_model
from regard.runtime.limits import cpu, measure_limits
from regard.tasks.translation import Translation
from regard.training.config import TrainingConfig
from regard.training.optim import make_optimizer

DROPOUT = 0.1


class Shape(NamedTuple):
    d: int
    heads: int
    ff: int
    layers: int


SHAPES = {"tiny": Shape(128, 4, 256, 4), "base": Shape(512, 8, 2048, 6)}
Step = Callable[[Batch], None]
Loss = Callable[[Batch], Tensor]
SETTINGS = {
    "regard": "transformer: dropout (embeddings, sub-layers), attention_dropout, activation_dropout; sinusoids;"
    " post-norm; loss: tasks.translation",
    "transformers (Marian)": "MarianMTModel: dropout (embeddings, sub-layers), attention_dropout, activation_dropout;"
    " sinusoids; post-norm; labels given, so the loss is its own; use_cache=False",
    "torch.nn.Transformer": "dropout (sub-layers, attention weights, feed-forward), and nn.Dropout of the embeddings"
    " around it; learned positions; post-norm and a last norm on each side; loss: functional.cross_entropy",
}


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
        first = [batch for batch, _ in zip(loader.epoch(0), range(count), strict=False)]
    return first, tokenizer.vocab_size


def labels_of(batch: Batch) -> Tensor:
    """The tokens to predict, −100 where there is padding."""
    return batch["target"][:, 1:].masked_fill(~batch["target_mask"][:, 1:], -100)


def updating(model: nn.Module, loss: Loss, *, low: bool = False) -> Step:
    optimizer = make_optimizer(model.train(), TrainingConfig(max_steps=1))

    def step(batch: Batch) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            value = loss(batch)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def ours(vocab: int, size: str = "tiny") -> tuple[nn.Module, Loss]:
    rates = {"dropout": DROPOUT, "attention_dropout": DROPOUT, "activation_dropout": DROPOUT}
    sizes = {"source_vocab": vocab, "target_vocab": vocab, **rates}
    model = make_model("transformer", config_of("transformer", sizes, size=size))
    task = Translation()
    return model, lambda batch: task.loss(model, batch) / task.count(batch)


def marian(vocab: int, size: str = "tiny") -> tuple[nn.Module, Loss]:
    from transformers import MarianConfig, MarianMTModel

    shape = SHAPES[size]
    config = MarianConfig(
        vocab_size=vocab, d_model=shape.d, encoder_layers=shape.layers, decoder_layers=shape.layers,
        encoder_attention_heads=shape.heads, decoder_attention_heads=shape.heads, encoder_ffn_dim=shape.ff,
        decoder_ffn_dim=shape.ff, dropout=DROPOUT,
        attention_dropout=DROPOUT, activation_dropout=DROPOUT, activation_function="relu", scale_embedding=True,
        use_cache=False,
        pad_token_id=0, decoder_start_token_id=2, eos_token_id=3, forced_eos_token_id=3, max_position_embeddings=512,
    )  # fmt: skip
    model = MarianMTModel(config)

    def loss(batch: Batch) -> Tensor:
        out = model(
            input_ids=batch["source"], attention_mask=batch["source_mask"].long(),
            decoder_input_ids=batch["target"][:, :-1], labels=labels_of(batch), use_cache=False,
        )  # fmt: skip
        assert out.past_key_values is None
        return out.loss

    return model, loss


class TorchTransformer(nn.Module):
    def __init__(self, vocab: int, shape: Shape) -> None:
        super().__init__()
        self.scale = shape.d**0.5
        self.embed = nn.Embedding(vocab, shape.d)
        self.places = nn.Embedding(512, shape.d)
        self.dropout = nn.Dropout(DROPOUT)
        self.inner = nn.Transformer(
            shape.d, shape.heads, shape.layers, shape.layers, shape.ff, DROPOUT, batch_first=True
        )

    def forward(self, batch: Batch) -> Tensor:
        source, target = batch["source"], batch["target"][:, :-1]
        x, y = (
            self.dropout(self.embed(ids) * self.scale + self.places.weight[: ids.shape[1]]) for ids in (source, target)
        )
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden_source = ~batch["source_mask"]
        out = self.inner(
            x, y, tgt_mask=future, tgt_is_causal=True, src_key_padding_mask=hidden_source,
            memory_key_padding_mask=hidden_source,
        )  # fmt: skip
        return out @ self.embed.weight.T


def torchs(vocab: int, size: str = "tiny") -> tuple[nn.Module, Loss]:
    model = TorchTransformer(vocab, SHAPES[size])
    return model, lambda batch: functional.cross_entropy(model(batch).flatten(0, 1), labels_of(batch).flatten())


def described(models: dict[str, nn.Module]) -> str:
    """The settings of each, as a list."""
    lines = [f"Dropout {DROPOUT}, no label smoothing, AdamW, gradients clipped at 1; tied embeddings:", ""]
    for name, model in models.items():
        count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        lines.append(f"- {name} ({count:,} trained numbers): {SETTINGS[name]}")
    return "\n".join(lines)


def product_share(some: list[Batch], speed: float, model: nn.Module, loss: Loss) -> str:
    """Operations of products a second while regard trains at this speed, beside what the machine can do."""
    with FlopCounterMode(display=False) as counter:
        for batch in some:
            loss(batch).backward()
    model.zero_grad()
    tokens = sum(Translation().count(batch) for batch in some)
    rate, limit = counter.get_total_flops() / tokens * speed / 1e9, measure_limits().float32
    share = f"{rate / limit.giga:.0%} of what the machine can do"
    return f"Products: {rate:.0f} of {limit.giga:.0f} GFLOP/s ({limit.by}), {share}."


def speeds_of(steps: dict[str, Step], some: list[Batch]) -> dict[str, list[float]]:
    """Target tokens a second of each, batch by batch in turns; the first two warm up."""
    speeds: dict[str, list[float]] = {name: [] for name in steps}
    for turn, batch in enumerate(some):
        for name, step in steps.items():
            start = time.perf_counter()
            step(batch)
            if turn >= 2:
                speeds[name].append(Translation().count(batch) / (time.perf_counter() - start))
    return speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--size", choices=list(SHAPES), default="tiny")
    add_results(parser)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    shape, size = SHAPES[arguments.size], arguments.size
    some, vocab = batches(arguments.rounds + 2)
    makers = {"regard": ours, "transformers (Marian)": marian, "torch.nn.Transformer": torchs}
    peers = {name: make(vocab, size) for name, make in makers.items()}
    settings = described({name: model for name, (model, _) in peers.items()})
    print(settings, flush=True)
    steps = {"regard": updating(*peers["regard"]), "regard, bfloat16": updating(*ours(vocab, size), low=True)}
    steps |= {name: updating(*peer) for name, peer in peers.items() if name != "regard"}
    speeds = speeds_of(steps, some)
    lines = ["| trained by | target tokens/s | regard is |", "|---|---|---|"]
    for name, values in speeds.items():
        ratio = median(mine / theirs for mine, theirs in zip(speeds["regard"], values, strict=True))
        lines.append(f"| {name} | {median(values):,.0f} | {ratio:.2f}× as fast |")
    table = "\n".join([*lines, "", product_share(some[2:5], median(speeds["regard"]), *peers["regard"])])
    print(table)
    what = f"Transformer {size} ({shape.layers}+{shape.layers} layers, d {shape.d}), Multi30k, 10k BPE"
    command = "python benchmarks/training.py" + f" --size {size}" * (size != "tiny")
    title = "Training" if size == "tiny" else f"Training, {size} size"
    machine = f"{torch.get_num_threads()} threads of {cpu()}, {arguments.rounds} rounds"
    put(arguments.results, title, f"{what}, {machine}, `{command}`. {settings}\n\n{table}")


if __name__ == "__main__":
    main()
