"""`align`: words by default, pieces where asked for, both in JSON."""

import json

import pytest
import torch
from tests.system.small_models import LINES, fails, run, stored

from regard.data.text import make_tokenizer
from regard.pipelines import make_pipeline

TEXT, TARGET = "the old houses sat.", "who saw the cat ?"


@pytest.fixture(scope="module")
def translator():
    tokenizer = make_tokenizer("bpe", [f"{line}." for line in LINES] * 3, vocab_size=45)
    shape = {"d_model": 24, "n_heads": 3, "d_ff": 40, "n_encoder_layers": 2, "n_decoder_layers": 2}
    sizes = {"source_vocab": tokenizer.vocab_size, "target_vocab": tokenizer.vocab_size}
    return make_pipeline(stored("transformer", "translation", {**shape, **sizes}, {}, tokenizer))


def test_pieces_are_put_together_to_words(translator):
    seen = translator.align(TEXT, TARGET)
    assert seen.source == ["the", "old", "houses", "sat", ".", "</s>"]
    assert seen.target == ["who", "saw", "the", "cat", "?", "</s>"]
    pieces = translator.align(TEXT, TARGET, pieces=True)
    assert seen.pieces == pieces
    assert pieces.pieces is None
    assert len(pieces.source) > len(seen.source)
    assert len(pieces.target) > len(seen.target)
    (ids,), (written,) = (translator.tokenizer.encode_batch([text]) for text in (TEXT, TARGET))
    columns = [*(places for _, places in translator.tokenizer.words(ids)), [len(ids)]]
    rows = [*(places for _, places in translator.tokenizer.words(written)), [len(written)]]
    for site, heads in seen.sites.items():
        raw = torch.tensor(pieces.sites[site])
        for head, weights in enumerate(heads):
            for row, line in zip(rows, weights, strict=True):
                assert sum(line) == pytest.approx(1, abs=1e-5)
                for column, weight in zip(columns, line, strict=True):
                    summed = raw[head][row][:, column].sum(1)
                    assert weight == pytest.approx(float(summed.mean()), abs=1e-6)


def test_the_command_shows_words_or_pieces(translator, tmp_path, capsys):
    translator.save(tmp_path / "m")
    _, shown, _ = run(capsys, "align", tmp_path / "m", TEXT, TARGET)
    assert "houses" in shown
    assert "▁" not in shown
    _, shown, _ = run(capsys, "align", tmp_path / "m", TEXT, TARGET, "--pieces")
    assert "houses" not in shown
    assert "▁" in shown
    run(capsys, "align", tmp_path / "m", TEXT, TARGET, "--out", tmp_path / "a.json")
    told = json.loads((tmp_path / "a.json").read_text())
    assert told["source"][2] == "houses"
    assert "".join(told["pieces"]["source"]).startswith("▁the▁old▁houses")
    assert told["pieces"]["sites"].keys() == told["sites"].keys()
    assert "no such head" in fails(capsys, "align", tmp_path / "m", TEXT, TARGET, "--head", "9", "--site",
                                   "decoder.1.cross")  # fmt: skip
