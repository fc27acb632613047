"""What a folder says about how its outputs and inputs are read: several labels, names that occur twice, lengths."""

import json

import pytest
import torch
from tests.system.small_models import SIZES, fails, hf, run, stored

import regard
from regard.pipelines import make_pipeline


def changed(folder, name="config.json", **fields):
    path = folder / name
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **fields}))


@pytest.mark.parametrize("head", ["none", "masked_lm", "classes", "span"])
def test_translate_on_a_model_that_does_not_translate(bert, head, tmp_path, capsys):
    tasks = {"none": "sentence_similarity", "classes": "classification", "span": "question_answering"}
    bert(head, tasks.get(head, head)).save(tmp_path / "m")
    assert "translate needs a translation model: got a bert for" in fails(capsys, "translate", tmp_path / "m")


def test_translate_on_models_of_text_and_images(gpt2, vit, tmp_path, capsys):
    for name, model in (("gpt2", gpt2), ("vit", vit)):
        model.save(tmp_path / name)
        assert "translate needs a translation model" in fails(capsys, "translate", tmp_path / name)


def test_classes_that_do_not_exclude_each_other(bert, tmp_path, capsys):
    """problem_type multi_label_classification: each class has a probability of its own."""
    folder = hf(bert("classes", "classification", labels=["toxic", "insult", "threat"]), tmp_path / "m")
    changed(folder, problem_type="multi_label_classification")
    loaded = regard.load(folder)
    texts = ["the cat sat", "a dog ran to the old house"]
    with torch.no_grad():
        wanted = loaded(**loaded.inputs(texts)).logits.sigmoid()
    results = loaded.classify(texts)
    got = torch.tensor([[result.scores[name] for name in ("toxic", "insult", "threat")] for result in results])
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)
    assert [sorted(result.labels) for result in results] == [
        sorted(name for name, value in result.scores.items() if value >= 0.5) for result in results
    ]
    code, out, _ = run(capsys, "classify", folder, texts[0])
    assert code == 0
    assert out.split("\t")[0] == (", ".join(results[0].labels) or "-")
    again = hf(loaded, tmp_path / "again")
    assert json.loads((again / "config.json").read_text())["problem_type"] == "multi_label_classification"
    assert regard.load(again).classify(texts) == results


def test_images_may_have_several_labels_too(vit, tmp_path):
    folder = hf(vit, tmp_path / "m")
    changed(folder, problem_type="multi_label_classification")
    pixels = torch.rand(1, 3, 8, 8)
    loaded = regard.load(folder)
    from PIL import Image

    image = Image.new("RGB", (8, 8), "red")
    with torch.no_grad():
        wanted = loaded(loaded.form.pixel_values([image])).logits.sigmoid()[0]
        assert loaded(pixels).logits.shape == (1, 3)
    torch.testing.assert_close(torch.tensor(list(loaded.classify([image])[0].scores.values())), wanted)


def test_classes_with_the_same_name_keep_their_scores(tmp_path, capsys):
    """ImageNet has two classes that are called crane."""
    options = {**SIZES, "image_size": 8, "patch_size": 4, "d_ff": 40, "n_labels": 3}
    form = {"size": 8, "channels": 3, "mean": [0.5] * 3, "std": [0.5] * 3}
    extra = {"image": form, "labels": ["crane", "boat", "crane"]}
    model = make_pipeline(stored("vit", "image_classification", options, extra))
    from PIL import Image

    Image.new("RGB", (8, 8), "blue").save(tmp_path / "blue.png")
    (result,) = model.classify([tmp_path / "blue.png"])
    assert list(result.scores) == ["crane (0)", "boat", "crane (2)"]
    assert sum(result.scores.values()) == pytest.approx(1, abs=1e-6)
    assert result.score == max(result.scores.values())
    assert model.answer_label(2) == "crane (2)"
    model.save(tmp_path / "m")
    out = json.loads(run(capsys, "classify", tmp_path / "m", tmp_path / "blue.png", "--json")[1])
    assert len(out["scores"]) == 3


def test_distinct_names_never_meet_names_that_are_there():
    from regard.pipelines._classes import distinct

    assert distinct(["a", "b"]) == ["a", "b"]
    assert distinct(["a", "a", "a (0)"]) == ["a (0)'", "a (1)", "a (0)"]


def test_embed_reads_as_much_as_the_folder_says_and_says_what_it_cuts(bert, tmp_path, capsys):
    """sentence_bert_config.json: max_seq_length counts [CLS] and [SEP]."""
    folder = hf(bert("sentence", "sentence_similarity"), tmp_path / "m")
    changed(folder, "sentence_bert_config.json", max_seq_length=12, do_lower_case=False)
    loaded = regard.load(folder)
    long = "the cat sat on the mat and the dog is not old and the house is old"
    kept = loaded.tokenizer.encode_batch([long])[0][:10]
    ids = torch.tensor([[loaded.tokenizer.cls, *kept, loaded.tokenizer.sep]])
    with torch.no_grad():
        wanted = torch.nn.functional.normalize(loaded(ids).hidden[0].mean(0), dim=-1)
    torch.testing.assert_close(loaded.embed([long, "a dog"])[0], wanted)
    assert loaded.n_cut == 1
    lines = tmp_path / "lines.txt"
    lines.write_text(f"{long}\na dog\n" * 300)
    code, _, err = run(capsys, "embed", folder, "--file", lines, "--out", tmp_path / "v.npy")
    assert code == 0
    assert err == "regard: note: 300 texts were longer than the 12 tokens that this model reads, and cut\n"
    assert run(capsys, "embed", folder, "a dog", "--out", tmp_path / "v.npy")[2] == ""
    again = regard.load(hf(loaded, tmp_path / "again"))
    assert torch.equal(again.embed([long]), loaded.embed([long]))
    loaded.save(tmp_path / "ours")
    assert torch.equal(regard.load(tmp_path / "ours").embed([long]), loaded.embed([long]))


@pytest.mark.parametrize("length", ["many", -1, 0, 1.5, [256], True])
def test_a_length_that_is_none_is_refused(bert, tmp_path, capsys, length):
    folder = hf(bert("sentence", "sentence_similarity"), tmp_path / "m")
    changed(folder, "sentence_bert_config.json", max_seq_length=length)
    assert "max_seq_length is not a length" in fails(capsys, "embed", folder, "a dog", "--json")
