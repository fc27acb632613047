"""Opening folders of every kind: without a tokenizer, in shards, damaged, with code in them, half fitting."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from tests.system.small_models import LINES, fails, hf, run, stored

import regard
from regard.core import weights
from regard.core.errors import RegardError
from regard.data.text import make_tokenizer
from regard.pipelines import make_pipeline
from regard.store.formats import hf as hf_format


def test_a_folder_without_a_tokenizer(gpt2, tmp_path, capsys):
    folder = hf(make_pipeline(replace(gpt2.stored, source_tokenizer=None, target_tokenizer=None)), tmp_path / "m")
    assert regard.load(folder)(torch.tensor([[5, 6]])).logits.shape == (1, 2, gpt2.config.vocab_size)
    assert "has no tokenizer" in fails(capsys, "generate", folder, "--prompt", "the")


def test_a_truncated_shard_and_a_missing_one(gpt2, tmp_path, capsys):
    folder = hf(gpt2, tmp_path / "m")
    tensors = weights.read_tensors(folder / "model.safetensors")
    names = sorted(tensors)
    for number, part in enumerate((names[:9], names[9:]), start=1):
        weights.write(folder / f"part-{number}.safetensors", {name: tensors[name] for name in part})
    places = {name: f"part-{1 if name in names[:9] else 2}.safetensors" for name in names}
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    whole = gpt2(torch.tensor([[5, 6, 7]])).logits
    torch.testing.assert_close(regard.load(folder)(torch.tensor([[5, 6, 7]])).logits, whole)
    file = folder / "part-2.safetensors"
    file.write_bytes(file.read_bytes()[:-50])
    assert "part-2.safetensors is damaged" in fails(capsys, "generate", folder, "--prompt", "the")
    file.unlink()
    assert "part-2.safetensors is missing" in fails(capsys, "generate", folder, "--prompt", "the")


def test_an_unknown_model_type_lists_what_is_known(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "gpt_neox"}')
    assert "expected one of bert, deit, gpt2, llama, marian, mistral, pegasus, qwen2, vit" in fails(
        capsys, "generate", tmp_path, "--prompt", "x"
    )
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertForMaskedLm"]}')
    assert "Did you mean 'BertForMaskedLM'?" in fails(capsys, "fill", tmp_path, "x")


def test_pickles_are_refused_with_a_way_out(gpt2, tmp_path, capsys):
    folder = hf(gpt2, tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    said = fails(capsys, "generate", folder, "--prompt", "the")
    assert "pytorch_model.bin" in said
    assert "save_pretrained" in said
    assert "not a model" in fails(capsys, "generate", folder / "pytorch_model.bin", "--prompt", "the")


def test_code_in_a_folder_is_reported_and_never_run(gpt2, tmp_path):
    folder = hf(gpt2, tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "evil.Model"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    words = [sys.executable, "-m", "regard", "generate", str(folder), "--prompt", "the", "--max-tokens", "2"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    assert "auto_map in config.json names code, which is never run" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_all_that_does_not_fit_is_told_together(gpt2, tmp_path):
    folder = hf(gpt2, tmp_path / "m")
    tensors = weights.read_tensors(folder / "model.safetensors")
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    del tensors["transformer.ln_f.bias"]
    tensors["transformer.wpe.weight"] = torch.zeros(3, 24)
    tensors["strange.weight"] = torch.zeros(2)
    weights.write(folder / "model.safetensors", tensors)
    with pytest.raises(
        RegardError, match=r"missing: norm\.bias; unexpected: strange\.weight; misfits: position\.table"
    ):
        regard.load(folder)


def test_weights_of_other_heads_are_left_out_with_a_note(bert, tmp_path):
    folder = hf(bert("pretraining", "masked_lm"), tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}))
    loaded = regard.load(folder)
    assert loaded.config.head == "masked_lm"
    assert loaded.stored.notes == ["not used by this head: pooler.bias, pooler.weight, pair.bias, pair.weight"]


@pytest.mark.parametrize(("flag", "pooling"), [("cls_token", "first"), ("mean_tokens", "mean"), ("max_tokens", "max")])
def test_sentence_vectors_as_the_folder_makes_them(bert, tmp_path, flag, pooling):
    folder = hf(bert("sentence", "sentence_similarity"), tmp_path / "m")
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{flag}": True}))
    loaded = regard.load(folder)
    assert loaded.config.pooling == pooling
    inputs = loaded.inputs(["the cat sat", "a dog"])
    with torch.no_grad():
        output = loaded(**inputs)
    real = [output.hidden[row, inputs["attention_mask"][row]] for row in range(2)]
    wanted = [{"first": one[0], "mean": one.mean(0), "max": one.amax(0)}[pooling] for one in real]
    wanted = torch.nn.functional.normalize(torch.stack(wanted), dim=-1)
    torch.testing.assert_close(output.pooled, wanted)
    torch.testing.assert_close(loaded.embed(["the cat sat", "a dog"]), wanted)
    again = regard.load(hf(loaded, tmp_path / "again"))
    assert again.config.pooling == pooling


def test_sentence_vectors_made_in_unknown_ways_are_refused(bert, tmp_path, capsys):
    folder = hf(bert("sentence", "sentence_similarity"), tmp_path / "m")
    place = folder / "1_Pooling" / "config.json"
    place.write_text(json.dumps({"pooling_mode_weightedmean_tokens": True}))
    assert "got weightedmean, expected one of mean, cls, max" in fails(capsys, "embed", folder, "x", "--out", "x.npy")
    place.write_text(json.dumps({"pooling_mode": "mean"}))
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([*modules, {"type": "sentence_transformers.models.Dense"}]))
    assert "models.Dense" in fails(capsys, "embed", folder, "x", "--out", "x.npy")


def test_a_text_begins_as_the_folder_says(gpt2, tmp_path):
    """Llama's tokenizers put a mark first; ours are told by the model folder, and tell theirs."""
    plain = regard.load(hf(gpt2, tmp_path / "plain"))
    assert plain.prompt_ids("the") == gpt2.prompt_ids("the")
    beginning = make_pipeline(replace(gpt2.stored, extra={"tokens": {"bos": 2, "eos": [3, 5]}, "begin": True}))
    folder = hf(beginning, tmp_path / "begins")
    loaded = regard.load(folder)
    assert loaded.prompt_ids("the") == [2, *gpt2.prompt_ids("the")]
    assert loaded.stored.extra["tokens"]["eos"] == [3, 5]
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "add_bos_token": False}))
    assert regard.load(folder).prompt_ids("the") == gpt2.prompt_ids("the")


def test_any_of_several_ends_ends_a_text(gpt2):
    whole = gpt2.generate(["the"], max_tokens=12)[0].tokens
    stop = whole[3]
    several = make_pipeline(replace(gpt2.stored, extra={"tokens": {"bos": 2, "eos": [1, stop]}}))
    (greedy,) = several.generate(["the"], max_tokens=12)
    assert greedy.finished
    assert greedy.tokens == whole[: whole.index(stop)]
    (best,) = several.generate(["the"], max_tokens=12, beam=3)
    assert best.finished
    prompt = several.prompt_ids("the")
    with torch.no_grad():
        log_probs = several.model(torch.tensor([[*prompt, *best.tokens]])).logits[0, len(prompt) - 1 :].log_softmax(-1)
    written = sum(log_probs[place, token].item() for place, token in enumerate(best.tokens))
    ends = [written + log_probs[-1, end].item() for end in (1, stop)]
    assert best.log_prob == pytest.approx(max(ends), abs=1e-4)


def test_half_precision_is_opened_as_single(gpt2, tmp_path):
    folder = hf(gpt2, tmp_path / "m")
    halves = {name: tensor.half() for name, tensor in weights.read_tensors(folder / "model.safetensors").items()}
    weights.write(folder / "model.safetensors", halves)
    assert {one.dtype for one in regard.load(folder).parameters()} == {torch.float32}


def test_convert_there_and_back(gpt2, tmp_path, capsys):
    gpt2.save(tmp_path / "ours")
    assert run(capsys, "convert", tmp_path / "ours", tmp_path / "theirs", "--to", "hf")[0] == 0
    assert run(capsys, "convert", tmp_path / "theirs", tmp_path / "again", "--to", "regard")[0] == 0
    one, other = (weights.read_tensors(tmp_path / name / "model.safetensors") for name in ("ours", "again"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert "exists already" in fails(capsys, "convert", tmp_path / "ours", tmp_path / "theirs", "--to", "hf")
    texts = [regard.load(tmp_path / name).generate(["the"], max_tokens=9)[0].text for name in ("ours", "again")]
    assert texts[0] == texts[1]


def test_what_has_no_counterpart_says_what_differs(tmp_path):
    tokenizer = make_tokenizer("char", LINES)
    sizes = {"source_vocab": tokenizer.vocab_size, "target_vocab": tokenizer.vocab_size, "d_model": 8, "n_heads": 2}
    options = {**sizes, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1, "position": "alibi"}
    model = make_pipeline(stored("transformer", "translation", options, {}, tokenizer))
    with pytest.raises(RegardError, match="got position 'alibi', expected position 'sinusoidal', as MarianMTModel"):
        hf_format.save(tmp_path, model.stored)


def test_a_recurrent_translator_has_no_counterpart(tmp_path):
    tokenizer = make_tokenizer("char", LINES)
    sizes = {
        "source_vocab": tokenizer.vocab_size,
        "target_vocab": tokenizer.vocab_size,
        "d_embedding": 8,
        "d_hidden": 8,
    }
    model = make_pipeline(stored("seq2seq", "translation", sizes, {}, tokenizer))
    with pytest.raises(RegardError, match="a seq2seq does not exist in the other library"):
        hf_format.save(tmp_path, model.stored)


def cached(folder, cache):
    """The files of a folder as Hugging Face's cache keeps them: links from a snapshot to blobs."""
    snapshot = cache / "snapshots" / "abc123"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    for number, path in enumerate(sorted(folder.iterdir())):
        path.rename(cache / "blobs" / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    return snapshot


def test_links_are_followed_in_a_cache_and_inside_a_folder(gpt2, tmp_path):
    wanted = gpt2(torch.tensor([[5, 6]])).logits
    snapshot = cached(hf(gpt2, tmp_path / "a"), tmp_path / "models--x")
    torch.testing.assert_close(regard.load(snapshot)(torch.tensor([[5, 6]])).logits, wanted)
    folder = hf(gpt2, tmp_path / "b")
    (folder / "parts").mkdir()
    (folder / "model.safetensors").rename(folder / "parts" / "w.safetensors")
    (folder / "model.safetensors").symlink_to("parts/w.safetensors")
    (tmp_path / "best").symlink_to(folder)
    torch.testing.assert_close(regard.load(tmp_path / "best")(torch.tensor([[5, 6]])).logits, wanted)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_links_that_lead_outside_are_refused(gpt2, tmp_path, name, capsys):
    folder = hf(gpt2, tmp_path / "m")
    (folder / name).rename(tmp_path / "secret")
    (folder / name).symlink_to(tmp_path / "secret")
    assert f"{name} is a link that leads outside its folder" in fails(capsys, "generate", folder, "--prompt", "x")


def test_shards_that_lead_outside_are_refused(gpt2, tmp_path, capsys):
    folder = hf(gpt2, tmp_path / "m")
    names = weights.read_tensors(folder / "model.safetensors")
    (tmp_path / "elsewhere").mkdir()
    (folder / "model.safetensors").rename(tmp_path / "elsewhere" / "w.safetensors")
    (folder / "sub").symlink_to(tmp_path / "elsewhere")
    index = {"weight_map": dict.fromkeys(names, "sub/w.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "is a link that leads outside its folder" in fails(capsys, "generate", folder, "--prompt", "x")


@pytest.mark.parametrize(("head", "needed"), [("none", False), ("sentence", False), ("classes", True)])
def test_a_bert_without_a_pooler_opens_where_nothing_needs_it(bert, tmp_path, head, needed):
    made = bert(head, "classification" if needed else "sentence_similarity")
    folder = hf(made, tmp_path / "m")
    left = {name: t for name, t in weights.read_tensors(folder / weights.FILE).items() if "pooler" not in name}
    weights.write(folder / weights.FILE, left)
    if needed:
        with pytest.raises(RegardError, match="missing: pooler.weight, pooler.bias"):
            regard.load(folder)
        return
    loaded = regard.load(folder)
    torch.testing.assert_close(loaded.embed(LINES), made.embed(LINES))
    again = regard.load(hf(loaded, tmp_path / "again"))
    assert not again.config.pooler
    torch.testing.assert_close(again.embed(LINES), made.embed(LINES))


def test_classes_of_one_name_stay_apart_in_an_exported_folder(bert, tmp_path):
    folder = hf(bert("classes", "classification", labels=["crane", "owl", "crane"]), tmp_path / "m")
    described = json.loads((folder / "config.json").read_text())
    assert described["id2label"] == {"0": "crane", "1": "owl", "2": "crane"}
    assert described["label2id"] == {"crane (0)": 0, "owl": 1, "crane (2)": 2}
    assert regard.load(folder).stored.extra["labels"] == ["crane", "owl", "crane"]
