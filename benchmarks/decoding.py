"""Tokens a second of greedy and beam search, beside transformers, and what a step reads of the sources.

    python benchmarks/decoding.py [--repeats N] [--small]

The same random weights in both libraries: Marian base (6 + 6 layers, d 512, vocabulary 32,000) and GPT-2 (124M). Every
output has the same fixed length, so no row leaves early. The two alternate in one process; the median counts. The last
column is the size of the keys and values of the sources that one step reads: each source once, and beside it what one
copy a beam would be. `--small` takes small models, for a look in a minute.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import regard
from regard.decoding import Search, decode

SOURCE, WRITTEN, PROMPT = 32, 32, 32


def timed(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of each, taken in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            if turn:  # the first turn warms up
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def marian(folder: Path, *, small: bool) -> tuple[object, object]:
    from transformers import MarianConfig, MarianMTModel

    sizes = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2} if small else {"d_model": 512}
    config = MarianConfig(
        vocab_size=2000 if small else 32000, encoder_ffn_dim=4 * sizes["d_model"], decoder_ffn_dim=4 * sizes["d_model"],
        encoder_layers=sizes.get("encoder_layers", 6), decoder_layers=sizes.get("decoder_layers", 6),
        d_model=sizes["d_model"], encoder_attention_heads=8, decoder_attention_heads=8, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0, max_position_embeddings=256, forced_eos_token_id=None,
    )  # fmt: skip
    theirs = MarianMTModel(config).eval()
    theirs.save_pretrained(folder)
    return theirs, regard.load(folder)


def gpt2(folder: Path, *, small: bool) -> tuple[object, object]:
    from transformers import GPT2Config, GPT2LMHeadModel

    theirs = GPT2LMHeadModel(GPT2Config(n_embd=64, n_layer=2, n_head=2) if small else GPT2Config()).eval()
    theirs.save_pretrained(folder)
    return theirs, regard.load(folder)


def translation_row(theirs, ours, rows: int, beam: int, repeats: int) -> str:
    source = torch.randint(4, theirs.config.vocab_size, (rows, SOURCE))
    mask = torch.ones_like(source)
    search = Search(beam=beam, max_length=WRITTEN, min_length=WRITTEN - 1, length_penalty=0.0)
    inputs = {"source": source, "source_mask": mask.bool()}

    def peer() -> object:
        return theirs.generate(
            source, attention_mask=mask, num_beams=beam, max_new_tokens=WRITTEN, min_new_tokens=WRITTEN, do_sample=False
        )

    def own() -> object:
        return decode(ours.model, inputs, search, bos=0, eos=-1, pad=-1, lengths=mask.sum(1))

    seconds = timed({"regard": own, "transformers": peer}, repeats)
    speeds = {name: rows * WRITTEN / value for name, value in seconds.items()}
    read = 2 * theirs.config.decoder_layers * rows * SOURCE * theirs.config.d_model * 4 / 1e6
    return (
        f"| Marian, {rows} × {SOURCE} tokens, beam {beam} | {speeds['regard']:,.0f} | {speeds['transformers']:,.0f} "
        f"| {speeds['regard'] / speeds['transformers']:.2f}× | {read:.1f} MB, {read * beam:.1f} MB a beam each |"
    )


def generation_row(theirs, ours, rows: int, repeats: int) -> str:
    prompts = torch.randint(4, theirs.config.vocab_size, (rows, PROMPT))
    search = Search(beam=1, max_length=PROMPT - 1 + WRITTEN)

    def peer() -> object:
        return theirs.generate(
            prompts, attention_mask=torch.ones_like(prompts), do_sample=False, max_new_tokens=WRITTEN,
            min_new_tokens=WRITTEN, pad_token_id=0,
        )  # fmt: skip

    def own() -> object:
        return decode(
            ours.model, {}, search, bos=prompts[:, 0].tolist(), eos=-1, pad=-1, prefixes=prompts[:, 1:].tolist(),
        )  # fmt: skip

    seconds = timed({"regard": own, "transformers": peer}, repeats)
    speeds = {name: rows * WRITTEN / value for name, value in seconds.items()}
    return (
        f"| GPT-2, {rows} × ({PROMPT} + {WRITTEN}) tokens | {speeds['regard']:,.0f} | {speeds['transformers']:,.0f} "
        f"| {speeds['regard'] / speeds['transformers']:.2f}× | – |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="small models, for a quick look")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print("| work | regard (tokens/s) | transformers (tokens/s) | ratio | read of the sources a step |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary, torch.inference_mode():
        pair = marian(Path(temporary) / "marian", small=arguments.small)
        for rows, beam in ((32, 1), (32, 5), (1, 1), (1, 5)):
            print(translation_row(*pair, rows, beam, arguments.repeats), flush=True)
        pair = gpt2(Path(temporary) / "gpt2", small=arguments.small)
        for rows in (1, 8):
            print(generation_row(*pair, rows, arguments.repeats), flush=True)


if __name__ == "__main__":
    main()
