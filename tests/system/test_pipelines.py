"""Using models as a stranger would: small random ones, every verb, and what goes wrong."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image
from tests.system.small_models import LINES, fails, run

from regard import api
from regard.core import lookup
from regard.core.errors import DataError, UsageError
from regard.pipelines import pipeline_of
from regard.pipelines._verbs import verbs_of


def test_prompts_of_any_lengths_give_what_each_gives_alone(gpt2):
    prompts = ["the cat", "a", "who saw the old dog", "the "]
    for options in ({}, {"beam": 3}, {"temperature": 1.0, "seed": 5}):
        together = gpt2.generate(prompts, max_tokens=12, **options)
        alone = [gpt2.generate([prompt], max_tokens=12, first=i, **options)[0] for i, prompt in enumerate(prompts)]
        assert [one.text for one in together] == [one.text for one in alone]


def test_what_is_written_step_by_step_is_what_whole_reading_gives(gpt2):
    (found,) = gpt2.generate(["the cat"], max_tokens=10, beam=1, sample=False)
    ids = gpt2.prompt_ids("the cat")
    for token in found.tokens:
        with torch.no_grad():
            logits = gpt2(torch.tensor([ids])).logits[0, -1]
        assert int(logits.argmax()) == token
        ids.append(token)


def test_text_comes_as_it_is_written(gpt2, tmp_path, capsys):
    gpt2.save(tmp_path / "m")
    whole = run(capsys, "generate", tmp_path / "m", "--prompt", "the cat", "--max-tokens", 9)[1]
    assert run(capsys, "generate", tmp_path / "m", "--prompt", "the cat", "--max-tokens", 9, "--stream")[1] == whole
    code, out, _ = run(
        capsys, "generate", tmp_path / "m", "--prompt", "a", "--prompt", "b", "--max-tokens", 4, "--json"
    )
    assert code == 0
    assert [json.loads(line)["prompt"] for line in out.splitlines()] == ["a", "b"]


def test_the_pieces_of_a_text_are_the_whole_text(gpt2):
    """The last token, at the limit, is a piece too; and progress counts it."""
    for more in ({"beam": 1}, {"temperature": 1.0, "seed": 5}):
        options = {"max_tokens": 9, "min_length": 8, **more}
        pieces, counted = [], Counter()
        (found,) = gpt2.generate(["the cat"], on_text=pieces.append, **options)
        assert len(found.tokens) in (8, 9)
        assert "".join(pieces) == found.text
        gpt2.generate(
            ["the cat"], on_progress=lambda texts, tokens, c=counted: c.update(texts=texts, tokens=tokens), **options
        )
        assert counted == {"texts": 1, "tokens": len(found.tokens)}


def test_a_character_that_stays_incomplete_is_shown_at_the_end(gpt2, monkeypatch):
    texts = {1: "a", 2: "a\ufffd", 3: "ab", 4: "ab\ufffd"}
    monkeypatch.setattr(gpt2, "continued", lambda _, tokens: texts[len(tokens)])
    pieces = []
    (found,) = gpt2.generate(["the"], max_tokens=4, min_length=3, beam=1, no_repeat_ngram=1, on_text=pieces.append)
    assert pieces[:2] == ["a", "b"]
    assert "".join(pieces) == found.text


def test_no_text_is_longer_than_max_tokens(gpt2):
    assert len(gpt2.generate(["the cat"], max_tokens=5, min_length=4)[0].tokens) in (4, 5)
    assert len(gpt2.generate(["the cat"], max_tokens=5, min_length=5)[0].tokens) == 5
    with pytest.raises(UsageError, match="got min_length=30, max_tokens=5. Set max_tokens to 30 or more"):
        gpt2.generate(["the cat"], max_tokens=5, min_length=30)
    for number in (0, -1):
        with pytest.raises(UsageError, match=f"max_tokens is too small: got {number}, expected 1 or more"):
            gpt2.generate(["the cat"], max_tokens=number)


def test_a_prompt_longer_than_the_context(gpt2, tmp_path, capsys):
    gpt2.save(tmp_path / "m")
    said = fails(capsys, "generate", tmp_path / "m", "--prompt", "the cat sat on " * 5)
    assert "prompt 1 leaves no room for new tokens: got 75 tokens, expected fewer than the model's 40" in said


def test_a_text_that_reaches_the_end_of_the_positions_says_so(gpt2, tmp_path, capsys):
    gpt2.save(tmp_path / "m")
    (found,) = gpt2.generate(["the cat"], max_tokens=99, min_length=60)
    assert (found.full, found.finished, len(found.tokens)) == (True, False, 34)  # 7 were read; the last is not read
    words = ("generate", tmp_path / "m", "--prompt", "the cat", "--max-tokens", 99, "--min-length", 60)
    code, _, err = run(capsys, *words)
    assert code == 0
    assert err == "regard: note: the text ends at the model's limit of 40 tokens\n"


def test_fill(bert, tmp_path, capsys):
    model = bert("masked_lm", "masked_lm")
    ((gap,),) = model.fill(["the [MASK] sat"], top=3)
    assert len(gap) == 3
    assert gap[0].probability >= gap[1].probability
    assert gap[0].text.startswith("the")
    assert len(model.fill(["[MASK] saw the [MASK]"])[0]) == 2
    model.save(tmp_path / "m")
    assert "the text has no [MASK]" in fails(capsys, "fill", tmp_path / "m", "the cat")
    assert "longer than this model can read" in fails(capsys, "fill", tmp_path / "m", "[MASK] " + "cat " * 60)
    for top in (0, -1):
        said = fails(capsys, "fill", tmp_path / "m", "the [MASK] sat", "--top", top)
        assert f"top is too small: got {top}, expected 1 or more" in said
    code, out, _ = run(capsys, "fill", tmp_path / "m", "the [MASK] sat", "--json", "--top", 2)
    assert code == 0
    assert len(json.loads(out)["gaps"][0]) == 2


def test_classify_texts_and_pairs(bert, tmp_path, capsys):
    model = bert("classes", "classification", labels=["bad", "fair", "good"])
    model.save(tmp_path / "m")
    code, out, _ = run(capsys, "classify", tmp_path / "m", "the cat", "a dog ran to the house", "")
    assert code == 0
    *classes, empty = (line.split("\t")[0] for line in out.splitlines())
    assert set(classes) <= {"bad", "fair", "good"}
    assert empty == "-"
    (tmp_path / "pairs.tsv").write_text("the cat\ta dog\nwho\tthe mat\n")
    code, out, _ = run(capsys, "classify", tmp_path / "m", "--pairs", "--json", "--file", tmp_path / "pairs.tsv")
    assert [round(sum(json.loads(line)["scores"].values()), 3) for line in out.splitlines()] == [1.0, 1.0]
    together = model.classify(LINES)
    assert [one.label for one in together] == [model.classify([line])[0].label for line in LINES]


def test_token_classes_and_next_sentences(bert):
    tagged = bert("token_classes", "token_classification").classify(["the cat sat"])[0]
    assert [token for token, _ in tagged] == ["the", "cat", "sat"]
    (found,) = bert("next_sentence", "next_sentence").classify(["the cat"], ["sat"])
    assert set(found.scores) == {"follows", "does not follow"}


def test_answer_is_a_stretch_of_the_context(bert, tmp_path, capsys):
    model = bert("span", "question_answering")
    context = "the old cat sat on the mat and the dog ran to the house " * 6
    (found,) = model.answer(["who sat ?"], [context])
    assert context[found.start : found.end] == found.text != ""
    model.save(tmp_path / "m")
    (tmp_path / "c.txt").write_text(context)
    code, out, _ = run(
        capsys, "answer", tmp_path / "m", "--question", "who sat ?", "--context", tmp_path / "c.txt", "--json"
    )
    assert code == 0
    assert json.loads(out)["answer"] == found.text
    assert "belong together" in fails(capsys, "answer", tmp_path / "m", "--question", "who ?")
    (tmp_path / "lines.tsv").write_text("who ?\tthe cat\n" * 299 + "who ?\n")
    assert "line 300 is not question and context" in fails(
        capsys, "answer", tmp_path / "m", "--file", tmp_path / "lines.tsv"
    )


def test_similar_and_embed(bert, tmp_path, capsys):
    model = bert("sentence", "sentence_similarity")
    assert model.similar(["the cat"], ["the cat"])[0] == pytest.approx(1.0, abs=1e-5)
    model.save(tmp_path / "m")
    code, out, _ = run(capsys, "similar", tmp_path / "m", "the cat", "a dog")
    assert code == 0
    assert -1 <= float(out.split("\t")[0]) <= 1
    code, out, _ = run(capsys, "embed", tmp_path / "m", "the cat", "a dog", "--out", tmp_path / "v.npy")
    vectors = np.load(tmp_path / "v.npy", allow_pickle=False)
    assert vectors.shape == (2, 24)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert model.embed([]).shape == (0, 24)
    assert "compares two texts" in fails(capsys, "similar", tmp_path / "m", "one")
    (tmp_path / "lines.tsv").write_text("the cat\ta dog\n" * 299 + "the cat\n")
    assert "line 300 is not a pair" in fails(capsys, "similar", tmp_path / "m", "--file", tmp_path / "lines.tsv")


def test_vectors_are_written_part_by_part(tmp_path):
    """Memory does not grow with the number of texts: a part is written before the next is made."""
    sizes = []

    def parts():
        for number in range(50):
            yield torch.full((1000, 8), float(number))
            sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))

    assert api.write_vectors(parts(), tmp_path / "v.npy") == (50_000, 8)
    assert sizes[-1] > 0.9 * 50_000 * 8 * 4
    vectors = np.load(tmp_path / "v.npy", allow_pickle=False)
    assert vectors.dtype == np.float32
    assert (vectors == np.repeat(np.arange(50.0), 1000)[:, None]).all()
    assert api.write_vectors([], tmp_path / "v.npy") == (0, 0)
    assert np.load(tmp_path / "v.npy").shape == (0, 0)


def test_images_of_every_kind(vit, tmp_path, capsys):
    Image.new("RGBA", (20, 10), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.new("RGB", (20, 10), "white").save(tmp_path / "white.png")
    Image.new("L", (1, 1), 77).save(tmp_path / "dot.png")
    (tmp_path / "note.txt").write_text("no image")
    vit.save(tmp_path / "m")
    names = [tmp_path / name for name in ("clear.png", "white.png", "dot.png")]
    code, out, _ = run(capsys, "classify", tmp_path / "m", *names)
    assert code == 0
    first, second, _ = (line.rsplit("\t", 1)[0] for line in out.splitlines())
    assert first == second  # what is transparent is laid on white
    assert "note.txt is not an image" in fails(capsys, "classify", tmp_path / "m", tmp_path / "note.txt")
    assert "none.png" in fails(capsys, "classify", tmp_path / "m", tmp_path / "none.png")


def test_images_are_embedded_as_texts_are(vit, bert, tmp_path, capsys):
    vit.save(tmp_path / "m")
    names = [tmp_path / name for name in ("red.png", "blue.png")]
    for name in names:
        Image.new("RGB", (9, 9), name.stem).save(name)
    code, out, err = run(capsys, "embed", tmp_path / "m", *names, "--json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["image"] for row in rows] == [str(name) for name in names]
    np.testing.assert_allclose(np.linalg.norm([row["vector"] for row in rows], axis=1), 1, atol=1e-5)
    counted = []
    vit.embed(names, rows=1, on_progress=lambda *done: counted.append(done))
    assert counted == [(1, 0), (1, 0)]
    bert("sentence", "sentence_similarity").save(tmp_path / "text")
    assert "red.png is an image" in fails(capsys, "embed", tmp_path / "text", names[0], "--json")


def test_a_verb_that_the_model_has_not_says_what_it_has(gpt2, tmp_path, capsys):
    gpt2.save(tmp_path / "m")
    said = fails(capsys, "classify", tmp_path / "m", "text")
    assert "classify needs a model with a classifier: got a gpt2 for language model" in said
    assert "Its commands are generate, explain." in said


def test_a_model_that_cannot_be_in_an_ensemble_is_named(gpt2, tmp_path):
    gpt2.save(tmp_path / "writer")
    first = pipeline_of("translation").__new__(pipeline_of("translation"))
    for names, named in (([], "a model"), ([str(tmp_path / "writer")], str(tmp_path / "writer"))):
        with pytest.raises(UsageError, match="an ensemble needs translation models") as error:
            pipeline_of("translation").join(first, gpt2, names=names)
        assert error.value.got == f"{named} for language model"
        assert error.value.remedy.startswith("Leave it out")


def test_a_perplexity_needs_a_token_that_is_predicted(gpt2):
    with pytest.raises(DataError, match="too short for a perplexity: got 1 token, expected 2 or more"):
        gpt2.perplexity("t")
    ids = torch.tensor(gpt2.prompt_ids("th"))
    with torch.no_grad():
        shares = gpt2.model(ids[None, :-1]).logits[0, 0].softmax(-1)
    assert gpt2.perplexity("th") == pytest.approx(1 / shares[ids[1]].item(), rel=1e-4)


def test_what_errors_name_as_commands_are_commands():
    """A verb of Python alone says so, and is not offered on the command line."""
    commands = set(lookup.names("regard.cli"))
    for task in lookup.names("regard.pipelines"):
        named = set(verbs_of(pipeline_of(task), commands=True))
        assert named <= commands, task
