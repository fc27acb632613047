"""A shortlist, through the commands: made from pairs of lines, used to translate, refused where it does not fit."""

import pytest
import torch
from tests.system.commands import one_line, run
from tests.system.conftest import reversed_pairs

import regard
from regard.core.weights import metadata, read_tensors, write


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for side, lines in zip(("source", "target"), zip(*reversed_pairs(300, 5), strict=True), strict=True):
        (folder / side).write_text("".join(line + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def listed(trained, pairs):
    path = pairs / "list.safetensors"
    done = run("shortlist", trained, "--source", pairs / "source", "--target", pairs / "target", "--out", path,
               "--best", 2, "--frequent", 0)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return path


def test_translations_stay_where_the_list_has_their_words(trained, listed):
    lines = "cat dog\none two three red\n"
    assert (
        run("translate", trained, "--shortlist", listed, text=lines).stdout
        == run("translate", trained, text=lines).stdout
    )


def test_a_word_that_is_not_listed_cannot_come(trained, listed, tmp_path):
    model = regard.load(trained)
    tensors = read_tensors(listed)
    (token,) = model.target_tokenizer.encode_batch(["dog"])[0][:1]
    kept = {name: torch.where(tensor == token, -1 if name == "best" else 0, tensor) for name, tensor in tensors.items()}
    write(tmp_path / "less.safetensors", kept, metadata=metadata(listed))
    assert model.translate(["cat dog"]) == ["dog cat"]
    assert "dog" not in model.translate(["cat dog"], shortlist=tmp_path / "less.safetensors")[0]


def test_evaluate_takes_it_too(trained, pairs, listed):
    done = run("evaluate", trained, "--source", pairs / "source", "--reference", pairs / "target",
               "--shortlist", listed, "--beam", 1)  # fmt: skip
    assert "BLEU" in done.stdout


@pytest.mark.slow
def test_what_does_not_fit_is_refused_in_one_line(trained, pairs, listed, tmp_path):
    words = "shortlist", trained, "--source", pairs / "source", "--out", tmp_path / "x.safetensors"
    (tmp_path / "short").write_text("one line\n")
    assert "pairs of lines" in one_line(run(*words, "--target", tmp_path / "short"), 1)
    assert "needs tokens" in one_line(run(*words, "--target", pairs / "target", "--best", 0), 2)
    write(tmp_path / "other.safetensors", {"best": torch.zeros(3, 2, dtype=torch.int32)})
    other = run("translate", trained, "--shortlist", tmp_path / "other.safetensors", text="cat\n")
    assert "no shortlist for this model" in one_line(other, 1)
    write(tmp_path / "bad.safetensors", {"best": torch.zeros(3, 2)}, metadata=metadata(listed))
    bad = run("translate", trained, "--shortlist", tmp_path / "bad.safetensors", text="cat\n")
    assert "is damaged" in one_line(bad, 1)
