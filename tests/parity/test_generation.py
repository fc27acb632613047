"""The generation settings of a folder have the effect that they have in `transformers`, or are named."""

import json

import pytest
import torch
from tests.parity.conftest import GPT2, MARIAN, make
from tests.parity.test_transformers import generated, rows

import regard
from regard.core.errors import ConfigError
from regard.core.search import Search
from regard.store import load_model, save_model
from regard.store.formats import hf as hf_format

SETTINGS = [
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7},
    {"repetition_penalty": 5.0, "num_beams": 3},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 1, "num_beams": 4},
    {"min_new_tokens": 6},
    {"min_new_tokens": 6, "num_beams": 3},
    {"bad_words_ids": [[7], [11], [3], [19], [30]]},
    {"repetition_penalty": 1.5, "no_repeat_ngram_size": 3, "min_new_tokens": 4, "bad_words_ids": [[5]]},
]


def folder_with(model, written, **settings):
    """The folder of a model whose generation_config.json says this; what it said before of special tokens stays."""
    folder = written(model)
    path = folder / "generation_config.json"
    said = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**said, **settings}))
    return folder


def said_by(**settings) -> dict:
    """For `generate`, which refuses a length penalty without beams."""
    return {"do_sample": False, **({"length_penalty": 0.0} if settings.get("num_beams", 1) > 1 else {}), **settings}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_language_model_generates_by_the_settings_of_its_folder(settings, written):
    theirs = make("GPT2LMHeadModel", "GPT2Config", **GPT2)
    prompts = [torch.randint(3, 40, (1, 2 + n), generator=torch.Generator().manual_seed(n)) for n in range(8)]
    # A token that comes soon is made the end, so that lengths matter.
    end = generated(theirs, input_ids=prompts[0], max_new_tokens=3, do_sample=False)[0, -1].item()
    prompts = [ids for ids in prompts if end not in ids]  # as a repeated token the end is forbidden there, and not here
    said = said_by(max_new_tokens=12, eos_token_id=end, **settings)
    ours = regard.load(folder_with(theirs, written, **said))
    assert not ours.stored.notes
    search = Search.parse({**ours.stored.search.model_dump(), "max_length": None, "max_ratio": 1.0, "max_extra": 12})
    plain = Search(beam=search.beam, length_penalty=0.0, length_form="mean", max_ratio=1.0, max_extra=12)
    compared = changed = 0
    for ids in prompts:
        expected = generated(theirs, input_ids=ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **said)
        new = expected[0, ids.shape[1] :].tolist()
        unfinished, new = end not in new, new[: new.index(end)] if end in new else new
        ((tokens, _, finished),) = ours.decode_ids(ids.tolist(), search)
        if finished and unfinished and search.beam > 1:
            continue  # at the limit a beam search there prefers better outputs, here those that have ended
        assert tokens == new
        compared += 1
        changed += tokens != ours.decode_ids(ids.tolist(), plain)[0][0]
    assert compared >= 4
    assert changed, "settings without an effect prove nothing"


@pytest.mark.parametrize("settings", [*SETTINGS, {"min_length": 7}, {"max_length": 6}, {"max_new_tokens": 4}], ids=str)
def test_a_translator_generates_by_the_settings_of_its_folder(settings, written):
    theirs = make("MarianMTModel", "MarianConfig", **{**MARIAN, "forced_eos_token_id": None})
    said = said_by(bad_words_ids=[[40]], forced_eos_token_id=None)
    said |= said_by(**settings)
    said["bad_words_ids"] = [[40], *settings.get("bad_words_ids", [])]
    if not {"max_length", "max_new_tokens"} & said.keys():
        said["max_new_tokens"] = 10
    ours = regard.load(folder_with(theirs, written, **said))
    assert not ours.stored.notes
    ids, mask = rows((7, 3, 5, 6, 2))
    expected = generated(theirs, input_ids=ids, attention_mask=mask, **said)
    numbered = list(range(len(ids)))
    real = [ids[row][mask[row].bool()].tolist() for row in numbered]
    # Our rows end with an end token; theirs here do not, so the batch is given as it is.
    ours._source = lambda chosen: (ids, mask.bool())
    decoded = ours._decode(numbered, real, ours.stored.search, None)
    for row in numbered:
        new = expected[row, 1:].tolist()
        new = new[: new.index(0)] if 0 in new else [token for token in new if token != 40]
        assert decoded[row][0].tokens == new


def test_settings_are_written_back(written, tmp_path):
    said = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "min_new_tokens": 2, "max_new_tokens": 30,
            "bad_words_ids": [[5], [9]]}  # fmt: skip
    folder = folder_with(make("GPT2LMHeadModel", "GPT2Config", **GPT2), written, **said)
    save_model(tmp_path / "ours", load_model(folder))
    hf_format.save(tmp_path / "again", load_model(tmp_path / "ours"))
    again = json.loads((tmp_path / "again" / "generation_config.json").read_text())
    assert {name: again[name] for name in said} == said
    assert load_model(tmp_path / "again").search == load_model(folder).search


def test_a_length_of_the_positions_does_not_replace_the_ratio(written):
    """As Marian's folders, and those that are exported here, say it."""
    theirs = make("MarianMTModel", "MarianConfig", **MARIAN)
    stored = load_model(folder_with(theirs, written, max_length=64, bad_words_ids=[[40]], num_beams=4))
    assert (stored.search.max_length, stored.search.forbidden, stored.search.beam) == (None, (), 4)
    assert not stored.notes


@pytest.mark.parametrize(("value", "named"), [(True, True), (False, False), ("never", False)])
def test_beams_that_stop_early_are_named(value, named, written):
    theirs = make("MarianMTModel", "MarianConfig", **MARIAN)
    notes = load_model(folder_with(theirs, written, num_beams=4, early_stopping=value)).notes
    assert [note for note in notes if "early_stopping" in note] == notes
    assert bool(notes) == named


def test_what_is_not_supported_is_named_in_one_line(written, capsys):
    from regard.cli import main

    settings = {"typical_p": 0.9, "do_sample": True, "suppress_tokens": [3, 4], "bad_words_ids": [[3, 4], [5]],
                "min_length": 5, "max_length": 20, "guidance_scale": 1.0, "encoder_no_repeat_ngram_size": 0,
                "early_stopping": True, "renormalize_logits": True}  # fmt: skip
    folder = folder_with(make("GPT2LMHeadModel", "GPT2Config", **GPT2), written, **settings)
    stored = load_model(folder)
    assert stored.search.forbidden == (5,)
    (note,) = stored.notes
    assert note == (
        "generation settings that are not supported: suppress_tokens [3, 4], typical_p 0.9, min_length 5, which counts"
        " the prompt, max_length 20, which counts the prompt, bad_words_ids of several tokens (1 of them)"
    )
    main(["generate", str(folder), "--prompt", "x"])
    assert f"regard: note: {note}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"repetition_penalty": "much"}, "repetition_penalty"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram"),
        ({"max_length": [3]}, "max_length is not a number of tokens"),
        ({"min_length": -2}, "min_length is not a number of tokens"),
        ({"bad_words_ids": [3]}, "bad_words_ids is not a list of lists"),
        ({"bad_words_ids": [["a"]]}, "bad_words_ids is not a list of lists"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, text, written):
    with pytest.raises(ConfigError, match=rf"generation_config.json.*{text}"):
        load_model(folder_with(make("GPT2LMHeadModel", "GPT2Config", **GPT2), written, **settings))


def test_a_converted_model_keeps_its_sampling(written, tmp_path):
    """Also min_p, which is written only if it has an effect."""
    stored = load_model(written(make("GPT2LMHeadModel", "GPT2Config", **GPT2)))
    for min_p, said in ((0.2, {"min_p": 0.2}), (0.0, {})):
        stored.search = Search(beam=1, sample=True, temperature=0.8, top_k=7, top_p=0.9, min_p=min_p)
        folder = tmp_path / str(min_p)
        save_model(folder, stored, form="hf")
        config = json.loads((folder / "generation_config.json").read_text())
        assert {name: value for name, value in config.items() if name == "min_p"} == said
        again = load_model(folder).search
        assert (again.temperature, again.top_k, again.top_p, again.min_p) == (0.8, 7, 0.9, min_p)
