"""Word vectors by the command: neighbours, analogies, the suite, pictures, files, and what is said of errors."""

import json

import numpy as np
import pytest
import torch

import regard
from regard import api
from regard.cli import main
from regard.core.errors import DataError, UsageError
from regard.data.text.vectors import write_vectors

# Countries and capitals on a line each, and two words that stand apart.
WORDS = {
    "france": (1.0, 0.0, 0.0), "paris": (1.0, 1.0, 0.0), "spain": (1.0, 0.0, 0.6), "madrid": (1.0, 1.0, 0.6),
    "italy": (1.0, 0.0, -0.6), "rome": (1.0, 1.0, -0.6), "apple": (0.2, -1.0, 0.1), "Pear": (0.2, -1.0, 0.3),
}  # fmt: skip


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    write_vectors(path, list(WORDS), np.array(list(WORDS.values())), "word2vec")
    return path


@pytest.fixture
def tests_of_words(tmp_path):
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "questions-words.txt").write_text(
        ": capitals\nFrance Paris Spain Madrid\nSpain Madrid Italy Rome\nFrance Paris Italy Madrid\n"
        ": other\nFrance Paris Norway Oslo\n"
    )
    (folder / "wordsim353.tsv").write_text(
        "# a comment\nfrance\tspain\t8\napple\tpear\t9\nparis\tapple\t1\nparis\toslo\t5\n"
    )
    return folder


def test_neighbours_and_analogies(vectors, capsys):
    model = regard.load(vectors)
    assert [word for word, _ in model.neighbours(["apple"], top=1)[0]] == ["Pear"]
    cosine = model.neighbours(["france"], top=7)[0]
    assert dict(cosine)["spain"] == pytest.approx(1 / 1.36**0.5, abs=1e-6)
    assert [score for _, score in cosine] == sorted((score for _, score in cosine), reverse=True)
    for method in ("add", "mul"):
        assert model.analogy("france", "paris", "italy", method=method)[0][0] == "rome"
    assert main(["analogy", str(vectors), "France", "paris", "spain", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["3CosAdd"][0]["word"] == answer["3CosMul"][0]["word"] == "madrid"
    assert len(answer["3CosAdd"]) == 5
    assert main(["neighbours", str(vectors), "pear", "france", "--top", "2"]) == 0
    assert "apple" in capsys.readouterr().out


def test_the_products_of_an_analogy(vectors):
    """3CosMul by its formula, with cosines moved to 0 … 1."""
    model = regard.load(vectors)
    space = model.space
    near = {
        name: (1 + space.cosine(space.number(name), space.number("rome"))) / 2 for name in ("france", "paris", "italy")
    }
    wanted = near["paris"] * near["italy"] / (near["france"] + 1e-3)
    assert dict(model.analogy("france", "paris", "italy", method="mul", top=3))["rome"] == pytest.approx(
        wanted, rel=1e-5
    )


def test_the_suite(vectors, tests_of_words, capsys):
    rows = {row.test: row for row in api.words(regard.load(vectors), tests_of_words)}
    assert (rows["WordSim-353"].asked, rows["WordSim-353"].questions) == (3, 4)
    assert rows["WordSim-353"].scores["spearman"] == pytest.approx(1.0)
    assert rows["capitals"].scores["3CosAdd"] == pytest.approx(2 / 3)
    assert (rows["other"].asked, rows["other"].scores) == (0, {})
    assert rows["all analogies"].asked == 3
    assert rows["all analogies"].questions == 4
    assert main(["evaluate", str(vectors), "--suite", "words", "--suite-data", str(tests_of_words)]) == 0
    assert "all analogies" in capsys.readouterr().out


def test_a_picture_of_words(vectors, tmp_path, capsys):
    for suffix in ("svg", "png", "html", "json"):
        assert (
            main(
                ["neighbours", str(vectors), "france", "paris", "rome", "apple", "--out", str(tmp_path / f"w.{suffix}")]
            )
            == 0
        )
    drawn = (tmp_path / "w.svg").read_text()
    assert all(word in drawn for word in ("france", "paris", "rome", "apple"))
    data = json.loads((tmp_path / "w.json").read_text())["data"]
    units = torch.nn.functional.normalize(torch.tensor([WORDS[word] for word in data["words"]]), dim=-1)
    # Distances in the picture are at most those of the vectors.
    flat = torch.cdist(torch.tensor(data["points"]), torch.tensor(data["points"]))
    assert (flat <= torch.cdist(units, units) + 1e-4).all()
    assert "circle" in (tmp_path / "w.html").read_text()
    api.panels_for_terminal(regard.load(vectors).picture(["france", "paris", "rome"]), 80)


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["neighbours", "MODEL", "frnace"], 1, "'frnace' is not in the vocabulary of 8 words. Did you mean 'france'"),
        (["neighbours", "MODEL", "france", "frnace", "rome"], 1, "'frnace' is not in the vocabulary"),
        (["neighbours", "TEXT", "france"], 1, "or word vectors (word2vec, GloVe)"),
        (["evaluate", "MODEL"], 2, "word vectors are tested by questions on words: got a word2vec"),
        (["analogy", "MODEL", "france", "paris", "zzz"], 1, "'zzz' is not in the vocabulary"),
        (["neighbours", "MODEL", "france", "--out", "words.pdf"], 2, "unknown suffix"),
        (["neighbours", "MODEL", "france", "--out", "words.svg"], 2, "at least three different words"),
        (["neighbours", "MODEL", "france", "--top", "0"], 2, "top is too small"),
        (["generate", "MODEL", "--prompt", "france"], 2, "Its commands are analogy, neighbours."),
        (["explain", "MODEL", "france"], 2, "explain needs a model that reads text"),
        (["evaluate", "MODEL", "--suite", "words", "--suite-data", "nowhere"], 1, "holds no test of word vectors"),
        (["convert", "MODEL", "OUT", "--to", "hf"], 2, "does not exist in the other library"),
    ],
)
def test_one_line_for_what_is_wrong(words, code, line, vectors, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("just some text\n")
    places = {"MODEL": str(vectors), "OUT": str(tmp_path / "out"), "TEXT": str(tmp_path / "text.txt")}
    assert main([places.get(word, word) for word in words]) == code
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("regard: ")
    assert line in said


def test_a_damaged_file_is_one_line(tmp_path, capsys):
    (tmp_path / "bad.txt").write_text("2 3\na 1 2 nan\nb 1 2 3\n")
    assert main(["neighbours", str(tmp_path / "bad.txt"), "a"]) == 1
    assert "NaN or infinity for 'a'" in capsys.readouterr().err


def test_a_word_that_is_there_twice_counts_once(tmp_path):
    (tmp_path / "twice.txt").write_text("a 1 2 3\nb 4 5 6\na 7 8 9\n")
    model = regard.load(tmp_path / "twice.txt")
    assert model.space.words == ["a", "b"]
    assert model.vector("a").tolist() == [1, 2, 3]
    assert "more than once" in model.stored.notes[0]


def test_arrays_with_a_list_of_words(tmp_path):
    np.save(tmp_path / "v.npy", np.array(list(WORDS.values()), np.float16))
    (tmp_path / "v.words.txt").write_text("\n".join(WORDS) + "\n")
    assert regard.load(tmp_path).neighbours(["apple"], top=1)[0][0][0] == "Pear"
    (tmp_path / "v.words.txt").write_text("a\nb\n")
    with pytest.raises(DataError, match="do not belong together"):
        regard.load(tmp_path)
    np.save(tmp_path / "v.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="not an array of numbers"):
        regard.load(tmp_path)


@pytest.mark.parametrize("kind", ["word", "wordpiece", "bpe"])
def test_first_embeddings_of_another_model(kind, vectors, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("the Apple of france is red\nin paris and rome a pear is green\n" * 40)
    recipe = {
        "task": "language_model",
        "data": {"train": str(tmp_path / "text.txt"), "tokenizer": {"kind": kind, "vocab_size": 150}, "context": 8},
        "model": {"embeddings": str(vectors), "options": {"d_model": 3, "n_layers": 1, "n_heads": 1}},
        "training": {"max_steps": 1, "lr": 1e-9, "warmup": 0},
    }
    model = regard.train(recipe, tmp_path / "run")
    assert "tokens have a vector in" in capsys.readouterr().out
    own = {word: number for number, word in model.tokenizer.whole_words().items()}
    matched = [word for word in ("france", "paris", "rome") if word in own]
    assert matched
    for word in matched:
        assert model.model.embedding.weight[own[word]].tolist() == pytest.approx(WORDS[word], abs=1e-5)
    with pytest.raises(UsageError, match="do not fit embedding: got 3 numbers a word, expected 4"):
        regard.train({**recipe, "model": {**recipe["model"], "options": {"d_model": 4, "n_heads": 1}}}, tmp_path / "b")
    with pytest.raises(UsageError, match="unknown table in model.embeddings"):
        regard.train({**recipe, "model": {**recipe["model"], "embeddings": {"source": str(vectors)}}}, tmp_path / "c")


def test_an_unknown_word_does_not_hide_the_others(vectors, capsys):
    assert main(["neighbours", str(vectors), "france", "frnace", "rome", "--top", "1"]) == 1
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")] == ["france", "rome"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("2 3\na 1 2 x\nb 1 2 3\n", "line 2 of FILE is damaged: got 'x', expected a word and 3 numbers. Copy"),
        ("2 3\na 1 2 3\nb 1 2 0,5\n", "line 3 of FILE is damaged: got '0,5', expected a word and 3 numbers. Copy"),
        ("9 30\na 1 2 3\n", "FILE is damaged or cut short: got 13 bytes, expected 9 words of 30 numbers, as its first"),
        ("a 1 2 3\nb 1 2\n", "line 2 of FILE has another width: got 2 numbers, expected 3. Copy"),
    ],
)
def test_what_is_damaged_in_a_file_of_vectors_is_shown_as_text(text, line, tmp_path, capsys):
    (tmp_path / "bad.txt").write_text(text)
    assert main(["neighbours", str(tmp_path / "bad.txt"), "a"]) == 1
    assert capsys.readouterr().err.startswith(f"regard: {line.replace('FILE', str(tmp_path / 'bad.txt'))}")
