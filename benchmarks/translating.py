"""A trained translator on real sentences beside transformers and CTranslate2: sentences a second, BLEU, same outputs.

    python benchmarks/translating.py FOLDER --source FILE --reference FILE [--rounds 3] [--lines 1000] [--beams 1 5]
                                                                  needs: pip install -e '.[bench]'

FOLDER is what `regard train` made. It is converted by `regard convert --to hf`, opened by transformers and by regard as
it is, and converted once more by CTranslate2's own converter. All get the same sentences as text and give text back:
outputs end when they end, so rows leave and slots are filled again. Each library and precision is a process of its
own, in turns. Medians over rounds, and half of the distance between the slowest and the fastest. Run it alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median

from _results import add_results, put
from _translating_workers import PEERS
from runtime import PAUSE, Worker, runnable

import regard
from regard import api
from regard.runtime.limits import cpu

SCRIPT = Path(__file__).with_name("_translating_workers.py")


def convert(folder: Path, place: Path) -> None:
    from ctranslate2.converters import TransformersConverter

    api.convert(regard.load(folder), place / "hf", to="hf")
    TransformersConverter(str(place / "hf")).convert(str(place / "ctranslate2"))


def measure(workers: dict[str, Worker], texts: list[str], references: list[str], beam: int, rounds: int) -> list[str]:
    from sacrebleu import corpus_bleu

    request = {"texts": texts, "beam": beam, "most": 100}
    outputs = {peer: worker(request)[1] for peer, worker in workers.items()}  # warms up
    speeds: dict[str, list[float]] = {peer: [] for peer in workers}
    for _ in range(rounds):
        for peer, worker in workers.items():
            time.sleep(PAUSE)
            speeds[peer].append(len(texts) / worker(request)[0])
    rows = []
    for peer in workers:
        rates = speeds[peer]
        rivals = [other for other in workers if other.endswith(peer.split()[-1]) and "ctranslate2" in other]
        beside = [
            f"{median(a / b for a, b in zip(rates, speeds[other], strict=True)):.2f}×"
            for other in ("transformers", *(rivals or ["ctranslate2 float32"]))
        ]
        same = sum(a == b for a, b in zip(outputs[peer], outputs["transformers"], strict=True)) / len(texts)
        middle = median(rates)
        speed = f"{middle:,.1f} ± {50 * (max(rates) - min(rates)) / middle:.0f} %"
        bleu = corpus_bleu(outputs[peer], [references]).score
        rows.append(f"| {beam} | {peer} | {speed} | {' | '.join(beside)} | {bleu:.2f} | {same:.1%} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--threads", type=int, default=2, help="of every library")
    add_results(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    texts, references = (api.read_text(file)[: arguments.lines] for file in (arguments.source, arguments.reference))
    lines = ["| beam | library | sentences/s | beside transformers | beside CTranslate2, same precision | BLEU (13a) | "
             "same text as transformers |", "|---" * 7 + "|"]  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        convert(arguments.folder, Path(temporary))
        peers = runnable(PEERS)
        workers = {peer: Worker(peer, Path(temporary), arguments.threads, script=SCRIPT) for peer in peers}
        for beam in arguments.beams:
            print(f"beam {beam}", file=sys.stderr, flush=True)
            lines += measure(workers, texts, references, beam, arguments.rounds)
        for worker in workers.values():
            worker.close()
    table = "\n".join(lines)
    print(table)
    what = f"`python benchmarks/translating.py` with {arguments.folder.name}, {len(texts)} sentences of"
    facts = f"{arguments.source.name}; {cpu()}, {arguments.threads} threads, {arguments.rounds} rounds"
    put(arguments.results, "A trained translator on real sentences", f"{what} {facts}\n\n{table}")


if __name__ == "__main__":
    main()
