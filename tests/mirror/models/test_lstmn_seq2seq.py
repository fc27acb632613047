"""The encoder–decoder of two tapes: its equations step by step, what is learnt, and what is seen of it."""

import pytest
import torch

import regard
from regard.cli import main
from regard.models import config_of, make_model

ANIMALS = {"cat": "Katze", "dog": "Hund", "horse": "Pferd", "bird": "Vogel"}
VERBS = {"sleeps": "schläft", "runs": "läuft", "sings": "singt"}
PAIRS = [(f"the {a} {v}", f"{VERBS[v]} {ANIMALS[a]} das") for a in ANIMALS for v in VERBS]


def attended(v, keys, query, values):
    """Additive attention of one query, written out."""
    weights = torch.softmax(torch.stack([v @ torch.tanh(key + query) for key in keys]), 0)
    return (weights[:, None] * values).sum(0)


@pytest.mark.parametrize("fusion", ["shallow", "deep"])
def test_the_papers_equations_written_out(fusion):
    torch.manual_seed(0)
    width = 5
    options = {"source_vocab": 9, "target_vocab": 9, "d_embedding": 4, "d_hidden": width, "fusion": fusion}
    model = make_model("lstmn_seq2seq", config_of("lstmn_seq2seq", options)).double().eval()
    source, target = torch.tensor([[4, 5, 6]]), torch.tensor([[2, 7, 8, 4]])
    layer, reader = model.decoder[0], model.encoder[0]
    with torch.no_grad():
        expected = model(source, torch.ones_like(source).bool(), target).hidden[0]
        gamma, tape = reader(model.source_embedding(source))
        gamma, alpha = gamma[0], tape["cell"][0]
        hiddens, cells, outs = [], [], []
        read, asked = torch.zeros(width).double(), torch.zeros(width).double()
        for x in model.target_embedding(target)[0]:
            given = layer.input(x)
            w_asked, w_gates = given[:width], given[width:]
            source_keys = layer.source_key(gamma)
            more = 0.0
            if fusion == "deep":
                query = layer.source_input(x)[:width] + layer.source_read(asked)[:width]
                seen, cell_seen = (attended(layer.source_score.v, source_keys, query, part) for part in (gamma, alpha))
                gate = torch.sigmoid(layer.source_input(x)[width:] + layer.source_read(seen)[width:])
                more, asked = gate * cell_seen, seen
            else:
                seen = attended(layer.source_score.v, source_keys, layer.ask(asked), gamma)
                w_asked, w_gates = (given + layer.context(seen)).split([width, 4 * width])
            back, back_cell = torch.zeros(2, width).double()
            if hiddens:
                keys, query = layer.key(torch.stack(hiddens)), w_asked + layer.read(read)[:width]
                back, back_cell = (attended(layer.score.v, keys, query, torch.stack(part)) for part in (hiddens, cells))
            keep, forget, out, new = (w_gates + layer.read(back)[width:]).split(width)
            cell = more + torch.sigmoid(forget) * back_cell + torch.sigmoid(keep) * torch.tanh(new)
            hidden = torch.sigmoid(out) * torch.tanh(cell)
            hiddens, cells, read = [*hiddens, hidden], [*cells, cell], back
            asked = asked if fusion == "deep" else hidden
            outs.append(torch.tanh(model.combine(hidden)))
    torch.testing.assert_close(torch.stack(outs), expected, atol=1e-12, rtol=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("fusion")
    for side, name in enumerate(("en", "de")):
        (place / f"text.{name}").write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    files = {"source": str(place / "text.en"), "target": str(place / "text.de")}
    recipe = {
        "task": "translation",
        "data": {"train": files, "tokenizer": {"kind": "word"}},
        "model": {"name": "lstmn_seq2seq", "options": {"d_embedding": 24, "d_hidden": 24, "dropout": 0.0}},
        "training": {"max_steps": 120, "lr": 0.02, "warmup": 10, "schedule": "constant", "label_smoothing": 0.0},
    }
    regard.train(recipe, place / "run", quiet=True)
    return place / "run"


def test_it_translates_and_shows_both_kinds_of_attention(folder, tmp_path, capsys):
    model = regard.load(folder)
    assert model.translate([english for english, _ in PAIRS]) == [german for _, german in PAIRS]
    assert model.translate(["the dog sings"], beam=1) == model.translate(["the dog sings"], beam=4)
    assert main(["align", str(folder), "the dog sings", "--out", str(tmp_path / "map.svg")]) == 0
    trace = regard.trace(model, "the dog sings")
    sites = {name: (site.queries, site.keys) for name, site in trace.sites.items()}
    assert sites == {
        "encoder.0.tape": ("later source", "earlier source"),
        "decoder.0.cross": ("target", "source"),
        "decoder.0.tape": ("later target", "earlier prefix"),
    }
    assert trace.labels("later target") == ["Hund", "das", "</s>"]
    assert trace.labels("earlier prefix") == ["<s>", "singt", "Hund"]
    assert trace["decoder.0.tape"].weights.shape == (1, 1, 3, 3)
    assert main(["explain", str(folder), "the dog sings"]) == 0
    said = capsys.readouterr().out
    assert "decoder.0.cross" in said
    assert "decoder.0.tape" in said
