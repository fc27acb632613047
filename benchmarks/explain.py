"""What looking inside costs, each beside what one would do without it, interleaved; the table is in RESULTS.md.

effective     A⊥ of all heads of a BERT-base at n = 512, from weights and values that are there: our thin QR, against
              one singular value decomposition of T a head; and against the time of the forward pass
trace         weights of all layers, against transformers' eager attention with output_attentions: time, peak memory
attribution   ‖∂c_j/∂x_i‖ of all tokens at one layer, n = 64, d = 384 (MiniLM's shape), against one backward pass for
              each output element (a sample of them, since all would take minutes)

python benchmarks/explain.py [--only effective|trace|attribution]
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import torch

from regard.explain import Subject, record
from regard.explain.jacobian import moved, run_to
from regard.explain.nullspace import reaching
from regard.models import config_of, make_model

TOKENS = 512
RESULTS = Path(__file__).with_name("RESULTS.md")


def bert(**options):
    torch.manual_seed(0)
    model = make_model("bert", config_of("bert", {"dropout": 0.0, "attention_dropout": 0.0, **options})).eval()
    return model.requires_grad_(False)


def subject_of(model, tokens, rows=1):
    ids = torch.randint(5, model.config.vocab_size, (rows, tokens), generator=torch.Generator().manual_seed(1))
    labels = [[str(place) for place in range(tokens)]] * rows
    return Subject("bert", "sentence_similarity", model, {"input_ids": ids}, {"input": labels})


def timed(function):
    start = time.perf_counter()
    found = function()
    return time.perf_counter() - start, found


def interleaved(functions, repeats):
    """The median seconds of each, in turns."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            times[name].append(timed(function)[0])
    return {name: median(found) for name, found in times.items()}


@torch.no_grad()
def effective_rows(repeats):
    model = bert()
    subject = subject_of(model, TOKENS)
    trace = record(subject, hidden=False, value_path=True)
    sites = list(trace.sites.values())

    def plain():
        """What the paper does: a decomposition of each head's T (K × D), and A minus its part in the null space."""
        site = sites[0]
        for head in range(2):
            whole = site.value_path[0, head]
            u, sizes, _ = torch.linalg.svd(whole, full_matrices=True)
            rank = int((sizes > sizes[0] * max(whole.shape) * torch.finfo(whole.dtype).eps).sum())
            null = u[:, rank:]
            weights = site.weights[0, head]
            weights - (weights @ null) @ null.T

    def thin():
        for site in sites:
            reaching(site.weights, site.path)

    def thin_with_paths():
        found = record(subject, hidden=False, value_path=True)
        for site in found.sites.values():
            reaching(site.weights, site.path)

    times = interleaved(
        {
            "forward": lambda: model(**subject.inputs),
            "thin": thin,
            "from nothing": thin_with_paths,
            "two heads by SVD": plain,
        },
        repeats,
    )
    heads = sum(site.weights.shape[1] for site in sites)
    svd = times["two heads by SVD"] / 2 * heads
    worst = max(
        float(
            ((reaching(site.weights, site.path)[0] @ site.path) - site.weights @ site.path).abs().amax()
            / (site.weights @ site.path).abs().amax()
        )
        for site in sites
    )
    causal = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    lower = sites[0].weights * causal
    causal_time = median(timed(lambda: reaching(lower, sites[0].path, causal))[0] for _ in range(repeats)) * len(sites)
    return [
        f"| forward pass of BERT-base, n = {TOKENS} | {times['forward']:.2f} s | |",
        f"| effective attention of its {heads} heads | {times['thin']:.2f} s | {times['thin'] / times['forward']:.2f}× "
        f"the forward pass; {svd / times['thin']:.0f}× faster than one SVD a head ({svd:.0f} s) |",
        f"| … with the forward pass, weights and T | {times['from nothing']:.2f} s | |",
        f"| … of causal rows, each by what it sees (float64) | {causal_time:.2f} s | one layer times {len(sites)} |",
        f"| largest error of A⊥T, relative to the largest of AT | {worst:.1e} | |",
    ]


def tracers():
    """Ways to get the weights of all layers of a BERT-base, by name: each makes its model and returns what to run."""
    ids = torch.randint(5, 30000, (1, TOKENS), generator=torch.Generator().manual_seed(1))

    def ours():
        subject = subject_of(bert(), TOKENS)
        return lambda: record(subject, hidden=False).sites

    def theirs():
        from transformers import BertConfig, BertModel

        torch.manual_seed(0)
        model = BertModel(BertConfig(attn_implementation="eager")).eval().requires_grad_(False)

        def run():
            with torch.no_grad():
                return model(ids, output_attentions=True).attentions

        return run

    return {"regard": ours, "transformers": theirs}


def trace_rows(repeats):
    """Time in one process, in turns; memory in processes of their own, since a peak belongs to a process."""
    times = interleaved({name: make() for name, make in tracers().items()}, 4 * repeats)
    peaks = {}
    for name in times:
        command = [sys.executable, __file__, "--child", name]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(3)]
        peaks[name] = median(float(run) for run in runs)
    return [
        f"| weights of all its layers, regard | {times['regard']:.3f} s, {peaks['regard']:.0f} MiB | "
        f"{times['regard'] / times['transformers']:.2f}× the time and "
        f"{peaks['regard'] / peaks['transformers']:.2f}× the memory of transformers |",
        f"| … transformers, eager, output_attentions | {times['transformers']:.3f} s, "
        f"{peaks['transformers']:.0f} MiB | |",
    ]


def child(name):
    """MiB of memory above what the model and the libraries take."""
    run = tracers()[name]()
    run()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = memory("VmRSS")
    kept = run()
    print(memory("VmHWM") - before)
    del kept


def memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def attribution_rows(repeats):
    model = bert(d_model=384, n_layers=6, n_heads=12, d_ff=1536)
    subject = subject_of(model, 64)
    trace = record(subject, weights=False)
    rows = []
    for layer in (1, 2, 6):
        name = f"encoder.{layer - 1}"
        x = trace.hidden["encoder.input"].clone().requires_grad_()
        hidden = run_to(subject, name, "encoder.input", x).flatten()
        sample = torch.randperm(len(hidden), generator=torch.Generator().manual_seed(2))[:60].tolist()

        def loop(hidden=hidden, x=x, sample=sample):
            for place in sample:
                torch.autograd.grad(hidden[place], x, retain_graph=True)

        def exact(name=name):
            moved(subject, 0, trace.hidden, layer=name, inputs="encoder.input", lengths=(64, 64))

        def probes(name=name):
            moved(subject, 0, trace.hidden, layer=name, inputs="encoder.input", lengths=(64, 64), probes=64)

        loops, exacts, estimates = [], [], []
        for _ in range(repeats if layer < 6 else 1):
            loops.append(timed(loop)[0] / len(sample) * len(hidden))
            exacts.append(timed(exact)[0])
            loops.append(timed(loop)[0] / len(sample) * len(hidden))
            estimates.append(timed(probes)[0])
        one, ours, guess = median(loops), median(exacts), median(estimates)
        rows += [
            f"| attribution at layer {layer}, n = 64, d = 384: one backward an element | {one:.0f} s | from "
            f"{len(sample)} of {len(hidden):,} |",
            f"| … exact | {ours:.1f} s | {one / ours:.1f}× faster |",
            f"| … 64 probes a token | {guess:.1f} s | {one / guess:.1f}× faster |",
        ]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=["effective", "trace", "attribution"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    parts = {
        "effective": lambda: effective_rows(arguments.repeats),
        "trace": lambda: trace_rows(arguments.repeats),
        "attribution": lambda: attribution_rows(min(3, arguments.repeats)),
    }
    rows = []
    for name, part in parts.items():
        if arguments.only in (None, name):
            rows += part()
            print(*rows[-8:], sep="\n", flush=True)
    if arguments.only is None:
        write(rows)


def write(rows):
    """Put the table in its place in RESULTS.md."""
    text = RESULTS.read_text(encoding="utf-8")
    begin, end = "<!-- explain -->", "<!-- /explain -->"
    head = f"## Looking inside\n\n`python benchmarks/explain.py`, torch {torch.__version__.split('+')[0]}, "
    table = f"{head}{torch.get_num_threads()} threads; medians.\n\n| | measured | |\n|---|---|---|\n" + "\n".join(rows)
    block = f"{begin}\n{table}\n{end}"
    if begin in text:
        text = text[: text.index(begin)] + block + text[text.index(end) + len(end) :]
    else:
        text = text.rstrip() + f"\n\n{block}\n"
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
