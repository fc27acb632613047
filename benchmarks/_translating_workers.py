"""The libraries that `translating.py` compares: each translates texts in a process of its own.

    python benchmarks/_translating_workers.py PEER FOLDER

FOLDER holds a translator as a Hugging Face folder (`hf`) and as CTranslate2's (`ctranslate2`). A request is a line of
JSON: {"texts": [text, …], "beam": 5, "most": 100}. Sentences are sorted by length and taken 32 at a time, as each
library does at its best. Beams are ranked by the mean log-probability in all of them, and end when as many outputs
have ended as the beam is wide (transformers: by its own rule).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from _runtime_workers import serve

AT_ONCE = 32
PEERS = ("transformers", "ctranslate2 float32", "ctranslate2 int8", "regard plain", "regard float32",
         "regard bfloat16", "regard int8")  # fmt: skip
Translate = Callable[..., list[str]]


def transformers(folder: Path, _: str) -> Translate:
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(folder / "hf")
    model = AutoModelForSeq2SeqLM.from_pretrained(folder / "hf", dtype=torch.float32).eval()

    def translate(texts: list[str], beam: int, most: int) -> list[str]:
        encoded = [tokenizer(text).input_ids for text in texts]
        order = sorted(range(len(texts)), key=lambda place: len(encoded[place]))
        results = [""] * len(texts)
        for start in range(0, len(order), AT_ONCE):
            places = order[start : start + AT_ONCE]
            inputs = tokenizer.pad({"input_ids": [encoded[place] for place in places]}, return_tensors="pt")
            with torch.inference_mode():
                written = model.generate(**inputs, num_beams=beam, length_penalty=1.0, max_new_tokens=most)
            for place, text in zip(places, tokenizer.batch_decode(written, skip_special_tokens=True), strict=True):
                results[place] = text
        return results

    return translate


def ctranslate2(folder: Path, precision: str) -> Translate:
    import ctranslate2 as library
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "hf")
    threads = int(os.environ["OMP_NUM_THREADS"])
    model = library.Translator(
        str(folder / "ctranslate2"), device="cpu", compute_type=precision, inter_threads=1, intra_threads=threads
    )

    def translate(texts: list[str], beam: int, most: int) -> list[str]:
        tokens = [tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids) for text in texts]
        results = model.translate_batch(
            tokens, beam_size=beam, max_decoding_length=most, length_penalty=1.0, max_batch_size=AT_ONCE
        )
        ids = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
        return [tokenizer.decode(row, skip_special_tokens=True) for row in ids]

    return translate


def regard(folder: Path, engine: str) -> Translate:
    import regard as library

    model = library.load(folder / "hf")
    reason = model.use_engine(engine)
    if reason is not None:
        raise SystemExit(f"{engine} cannot run here: {reason}")

    def translate(texts: list[str], beam: int, most: int) -> list[str]:
        written: list[str] = model.translate(
            texts, beam=beam, length_penalty=1.0, length_form="mean", max_length=most, patience=1.0
        )
        return written

    return translate


def opened(peer: str, folder: Path) -> Translate:
    library, _, option = peer.partition(" ")
    return {"transformers": transformers, "ctranslate2": ctranslate2, "regard": regard}[library](folder, option)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), opened)
