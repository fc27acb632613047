"""What every model must keep when it is looked at, by every method that there is; both by folder listing."""

import inspect
import json

import pytest
import torch
from tests.conformance.explained import MAKERS, made
from tests.conformance.test_word_vector_models import SMALL as WORD_VECTORS

import regard
from regard import explain as explaining
from regard.core import lookup
from regard.core.errors import RegardError, UsageError
from regard.explain import explain, find_method
from regard.explain.chosen import suited

QUICK = {
    "attribute": {"probes": 2},
    "gradients": {"probes": 2},
    "identify": {"steps": 5},
}
ALIGNED = ("seq2seq", "seq2seq-luong-lstm", "seq2seq-none")
FUSED = ("lstmn_seq2seq", "lstmn_seq2seq-shallow")
ELMO = ("elmo", "elmo-classes", "elmo-vectors")
ATTENDERS = ("show_attend_tell", "show_attend_tell-hard")
ASKED = ("vqa", "vqa-transformer", "vqa-dan", "vqa-dcn")
IMAGES = ("vit", "resnet", "efficientnet_lite", "show_tell", *ATTENDERS, *ASKED)
BAGS = ("bow", "bow-deep", "bow-lexicon", "dan-classes")
NO_ATTENTION = (
    *(
        "seq2seq-none",
        "ngram",
        *BAGS,
        "dan",
        "window_lm",
        "rnn",
        "rnn-classes",
        "rnn-characters",
        "han-mean",
        "ntm-none",
    ),
    *ELMO,
    *("resnet", "efficientnet_lite", "show_tell"),
)
MACHINES = ("ntm", "ntm-heads", "ntm-none")
ONE_WAY = (
    *(*ALIGNED, *NO_ATTENTION, *MACHINES, "lstmn", "lstmn-classes", *FUSED, "han", *ATTENDERS),
    *(name for name in ASKED if name != "vqa-transformer"),
)
"""Without self-attention over one sequence."""
CANNOT = {
    "lens": (
        *("bert-none", "bert-sentence", "bert-span", "ngram", "snail-policy", *MACHINES, *ELMO, *ASKED),
        *(name for name in BAGS if name.startswith("bow")),
    ),
    "rollout": ONE_WAY,
    "decisions": ONE_WAY,
    "maps": NO_ATTENTION,
    "effective": NO_ATTENTION,
    "alternatives": NO_ATTENTION,
    "ablate": NO_ATTENTION,
    "overview": NO_ATTENTION,
    "attribute": ("ngram",),
    "gradients": ("ngram", *BAGS),  # one state for the whole text has no distance to its words
    "memory": tuple(name for name in MAKERS if name not in ("ntm", "ntm-heads")),
    "orders": tuple(name for name in MAKERS if name != "ngram"),
    "words": ("ngram", "bert-none", *IMAGES),
    "photo": tuple(name for name in MAKERS if name not in ("vit", *ATTENDERS, *ASKED)),
    "document": tuple(name for name in MAKERS if name != "han"),
}
ON_TRACES = [name for name in explaining.method_names() if find_method(name).looks_at == "trace"]


def test_every_model_is_covered():
    # Word vectors and coordinate networks read no text or image, so there is nothing to look into while they run.
    others = {*WORD_VECTORS, "fourier"}
    assert {name.split("-")[0] for name in MAKERS} == set(lookup.names("regard.models")) - others


@pytest.mark.parametrize("name", NO_ATTENTION)
def test_methods_that_are_recommended_for_a_model_without_attention_explain_it(name):
    model, given, target = made(name)
    recommended = suited(explaining.trace(model, given, target))
    for words in recommended.removeprefix("Use --method ").removesuffix(".").split(" or "):
        method, *options = words.replace("--", "").split()
        quick = {} if options else QUICK.get(method, {})
        explain(model, given, target, method=method, **quick, **dict(zip(options[::2], options[1::2], strict=True)))
    if name in IMAGES:
        assert recommended == "Use --method attribute --how gradient."


def test_every_method_says_what_it_does():
    for name in explaining.method_names():
        function = find_method(name).function
        assert inspect.getdoc(function), name
        assert getattr(explaining, name) is function


@pytest.mark.parametrize("name", MAKERS)
def test_looking_changes_nothing_and_weights_are_weights(name):
    model, text, target = made(name)
    subject = model.subject(text, target)
    with torch.no_grad():
        before = subject.run(**subject.inputs).hidden
        trace = explaining.record(subject, value_path=True)
        after = subject.run(**subject.inputs).hidden
    assert torch.equal(before, after)
    for site in trace.sites.values():
        heads = trace.heads(site.name)
        assert heads.shape[1:] == (len(trace.labels(site.queries)), len(trace.labels(site.keys)))
        assert (heads >= 0).all()
        torch.testing.assert_close(heads.sum(-1), torch.ones(heads.shape[:2]), atol=1e-5, rtol=0)
    layers = trace.layers()
    assert layers
    assert all(trace.hidden[name].dim() == 3 for name in layers)
    assert any(name.endswith(".input") for name in trace.hidden) == (name != "ngram")


@pytest.mark.parametrize("name", MAKERS)
def test_heads_add_up_to_what_attention_gives(name):
    """A·T summed over the heads is what the output projection gives, without its bias."""
    model, text, target = made(name)
    sites = {module.site: module for module in model.model.modules() if hasattr(module, "value_path")}
    given = {}
    for site, module in sites.items():
        module.output.register_forward_hook(lambda _, __, output, site=site: given.update({site: output.detach()}))
    trace = regard.trace(model, text, target, value_path=True)
    assert set(sites) <= set(trace.sites)
    for site, module in sites.items():
        module.output._forward_hooks.clear()
        recorded_site = trace[site]
        product = recorded_site.frame @ recorded_site.frame.mT
        torch.testing.assert_close(product, torch.eye(product.shape[1]).expand_as(product), atol=1e-5, rtol=0)
        added = (recorded_site.weights @ recorded_site.value_path).sum(1)
        bias = 0 if module.output.bias is None else module.output.bias
        torch.testing.assert_close(added, given[site] - bias, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("method", ON_TRACES)
def test_every_method_on_every_model(name, method):
    model, text, target = made(name)
    options = QUICK.get(method, {})
    if method in ("identify", "senses") or name in CANNOT.get(method, ()):  # they want more sentences
        with pytest.raises(UsageError) as caught:
            explain(model, text, target, method=method, **options)
        assert "\n" not in str(caught.value)
        return
    result = explain(model, text, target, method=method, **options)
    json.dumps(result.as_dict(), allow_nan=False)
    assert result.statements
    assert result.panels


@pytest.mark.parametrize("name", MAKERS)
def test_a_trace_is_one_file(name, tmp_path):
    model, text, target = made(name)
    trace = regard.trace(model, text, target, value_path=True)
    trace.save(tmp_path / "x.trace")
    back = regard.Trace.load(tmp_path / "x.trace")
    assert back.sides == trace.sides
    assert list(back.hidden) == list(trace.hidden)
    assert back.output == json.loads(json.dumps(trace.output))
    for loaded, original in zip(back.sites.values(), trace.sites.values(), strict=True):
        assert (loaded.name, loaded.queries, loaded.keys) == (original.name, original.queries, original.keys)
        for part in ("weights", "allowed", "path", "frame"):
            a, b = getattr(loaded, part), getattr(original, part)
            assert (a is None) == (b is None)
            assert a is None or torch.equal(a, b)
    if trace.sites:
        looks = [look.name for site in trace.sites for look in trace.looks(site)]
        assert list(explain(back, method="effective").data["sites"]) == looks
    with pytest.raises(UsageError, match="runs the model again"):
        explain(back, method="ablate" if trace.sites else "lens")


@pytest.mark.parametrize("name", MAKERS)
def test_a_batch_gives_what_each_row_gives_alone(name):
    model, text, target = made(name)
    if name in (*IMAGES, "snail"):
        pytest.skip("images are all of one size")
    longer = f"{text} {text}" if "MASK" not in text else "the old dog [MASK] to the house and the cat"
    targets = None if target is None else [target, f"{target} {target}"]
    together = regard.trace(model, [text, longer], targets, value_path=True)
    alone = regard.trace(model, longer, None if targets is None else targets[1], value_path=True)
    for site in alone.sites:
        torch.testing.assert_close(together.heads(site, 1), alone.heads(site), atol=1e-5, rtol=1e-4)
    if alone.sites:
        batched = explain(together, method="effective", row=1).data["sites"]
        single = explain(alone, method="effective").data["sites"]
        for site in batched:
            assert batched[site]["null_dimension"] == single[site]["null_dimension"]
            assert batched[site]["correlation"] == pytest.approx(single[site]["correlation"], abs=1e-3)


def test_what_is_not_there_is_said():
    gpt2, _, _ = made("gpt2")
    with pytest.raises(RegardError, match=r"decoder\.1"):
        regard.trace(gpt2, "the cat", sites="encoder.9")
    with pytest.raises(RegardError, match="empty"):
        regard.trace(gpt2, "  ")
    with pytest.raises(RegardError, match="longer than this model"):
        regard.trace(gpt2, "the cat " * 40)
