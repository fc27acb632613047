"""What looking inside costs, each beside what one would do without it, interleaved; the table is in RESULTS.md.

effective     A⊥ of all heads of a BERT-base at n = 512, from weights and values that are there: our thin QR, against
              one singular value decomposition of T a head, all of them; and against the time of the forward pass
trace         weights of all layers, against transformers' eager attention with output_attentions: time, peak memory
attribution   ‖∂c_j/∂x_i‖ of all tokens at one layer, n = 64, d = 384 (MiniLM's shape), against one backward pass for
              each output element: a sample of them, and the table says how many and what they are multiplied with;
              `--whole` measures every one, once, which takes many minutes

python benchmarks/explain.py [--only effective|trace|attribution] [--whole]
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
from _results import add_results, put

from regard.explain import Subject, record
from regard.explain.jacobian import moved, run_to
from regard.explain.nullspace import reaching
from regard.models import config_of, make_model

TOKENS = 512


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
    function()
    return time.perf_counter() - start


def interleaved(functions, repeats):
    """The median seconds of each, in turns."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            times[name].append(timed(function))
    return {name: median(values) for name, values in times.items()}


@torch.no_grad()
def effective_rows(repeats, tokens, **shape):
    model = bert(**shape)
    subject = subject_of(model, tokens)
    trace = record(subject, hidden=False, value_path=True)
    sites = list(trace.sites.values())

    def plain():
        """What the paper does: a decomposition of each head's T (K × D), and A minus its part in the null space."""
        for site in sites:
            for path, weights in zip(site.value_path[0], site.weights[0], strict=True):
                u, sizes, _ = torch.linalg.svd(path, full_matrices=True)
                rank = int((sizes > sizes[0] * max(path.shape) * torch.finfo(path.dtype).eps).sum())
                null = u[:, rank:]
                weights - (weights @ null) @ null.T

    def thin():
        for site in sites:
            reaching(site.weights, site.path)

    def thin_with_paths():
        for site in record(subject, hidden=False, value_path=True).sites.values():
            reaching(site.weights, site.path)

    allowed = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    lower = [site.weights * allowed for site in sites]

    def causal():
        for weights, site in zip(lower, sites, strict=True):
            reaching(weights, site.path, allowed)

    times = interleaved(
        {
            "forward": lambda: model(**subject.inputs),
            "thin": thin,
            "from nothing": thin_with_paths,
            "causal": causal,
            "SVD": plain,
        },
        repeats,
    )
    heads = sum(site.weights.shape[1] for site in sites)
    svd = times["SVD"]
    worst = max(
        float(
            ((reaching(site.weights, site.path)[0] @ site.path) - site.weights @ site.path).abs().amax()
            / (site.weights @ site.path).abs().amax()
        )
        for site in sites
    )
    return [
        f"| forward pass of BERT-base, n = {tokens} | {times['forward']:.2f} s | |",
        f"| effective attention of its {heads} heads | {times['thin']:.2f} s | {times['thin'] / times['forward']:.2f}× "
        f"the forward pass; {svd / times['thin']:.0f}× faster than one SVD a head "
        f"({svd:.1f} s, {heads} of {heads} measured) |",
        f"| … with the forward pass, weights and T | {times['from nothing']:.2f} s | |",
        f"| … of causal rows, each by what it sees (float64) | {times['causal']:.2f} s | "
        f"{len(sites)} of {len(sites)} layers measured |",
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


def attribution_rows(repeats, sampled, tokens=64, layers=(1, 2, 6), **shape):
    """`sampled` output elements are run backwards each turn, or all of them once (None)."""
    sizes = {"d_model": 384, "n_layers": 6, "n_heads": 12, "d_ff": 1536, **shape}
    model = bert(**sizes)
    subject = subject_of(model, tokens)
    trace = record(subject, weights=False)
    rows = []
    for layer in layers:
        name = f"encoder.{layer - 1}"
        x = trace.hidden["encoder.input"].clone().requires_grad_()
        hidden = run_to(subject, name, "encoder.input", x).flatten()
        order = torch.randperm(len(hidden), generator=torch.Generator().manual_seed(2))
        sample = order[: sampled or len(hidden)].tolist()

        def loop(hidden=hidden, x=x, sample=sample):
            for place in sample:
                torch.autograd.grad(hidden[place], x, retain_graph=True)

        def exact(name=name):
            moved(subject, 0, trace.hidden, layer=name, inputs="encoder.input", lengths=(tokens, tokens))

        def probes(name=name):
            moved(subject, 0, trace.hidden, layer=name, inputs="encoder.input", lengths=(tokens, tokens), probes=64)

        loops, exacts, estimates = [], [], []
        factor = len(hidden) / len(sample)
        for _ in range(repeats if layer < 6 else 1):
            if sampled or not loops:
                loops.append(factor * timed(loop))
            exacts.append(timed(exact))
            if sampled:
                loops.append(factor * timed(loop))
            estimates.append(timed(probes))
        backward, ours, estimate = median(loops), median(exacts), median(estimates)
        share = f"{len(sample):,} of {len(hidden):,} measured" + (f", times {factor:.1f}" if factor > 1 else "")
        than = "faster than that estimate" if factor > 1 else "faster"
        rows += [
            f"| attribution at layer {layer}, n = {tokens}, d = {sizes['d_model']}: one backward an element | "
            f"{backward:.0f} s | {share} |",
            f"| … exact | {ours:.1f} s | {backward / ours:.1f}× {than} |",
            f"| … 64 probes a token | {estimate:.1f} s | {backward / estimate:.1f}× {than} |",
        ]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=["effective", "trace", "attribution"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--whole", action="store_true", help="every backward pass of the attribution, none estimated")
    parser.add_argument("--small", action="store_true", help="small models and short texts, for a trial; no trace")
    add_results(parser)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    sampled = None if arguments.whole else 60
    small = {"d_model": 48, "n_layers": 2, "n_heads": 4, "d_ff": 96, "vocab_size": 500} if arguments.small else {}
    less = {"tokens": 8, "layers": (1, 2)} if arguments.small else {}
    parts = {
        "effective": lambda: effective_rows(arguments.repeats, 64 if arguments.small else TOKENS, **small),
        "trace": lambda: [] if arguments.small else trace_rows(arguments.repeats),
        "attribution": lambda: attribution_rows(min(3, arguments.repeats), sampled, **less, **small),
    }
    rows = []
    for name, part in parts.items():
        if arguments.only in (None, name):
            more = part()
            print(*more, sep="\n", flush=True)
            rows += more
    if arguments.only is None and not arguments.small:
        version = torch.__version__.split("+")[0]
        head = f"`python benchmarks/explain.py`, torch {version}, {torch.get_num_threads()} threads"
        table = "\n".join(["| | measured | |", "|---|---|---|", *rows])
        put(arguments.results, "Looking inside", f"{head}; medians.\n\n{table}")


if __name__ == "__main__":
    main()
