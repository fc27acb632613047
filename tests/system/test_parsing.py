"""Parsing through the commands: a grammar is learnt, every output is a tree over the words, bad input is named."""

import random

import pytest
from tests.system.commands import one_line, run

import regard
from regard.data.trees import parse, read_trees
from regard.evaluation.brackets import right_branching, score

NOUNS, VERBS, PLACES = ["cat", "dog", "bird"], ["sees", "hears"], ["in", "near"]


def noun_phrase(dice, depth=0):
    inner = f"(NP (DT the) (NN {dice.choice(NOUNS)}))"
    if depth < 2 and dice.random() < 0.4:
        return f"(NP {inner} (PP (IN {dice.choice(PLACES)}) {noun_phrase(dice, depth + 1)}))"
    return inner


def sentence(dice):
    return f"(S1 (S {noun_phrase(dice)} (VP (VBZ {dice.choice(VERBS)}) {noun_phrase(dice)}) (. .)))"


def trained(folder, steps, metric, **data):
    for name, count, seed in (("train", 300, 1), ("held", 40, 2)):
        dice = random.Random(seed)
        (folder / name).write_text("".join(sentence(dice) + "\n" for _ in range(count)))
    recipe = {
        "task": "parsing",
        "data": {
            "train": {"trees": str(folder / "train")},
            "validation": {"trees": str(folder / "held")},
            "tokenizer": {"kind": "bpe", "vocab_size": 60},
            **data,
        },
        "model": {
            "name": "transformer",
            "options": {
                "d_model": 32,
                "n_heads": 2,
                "d_ff": 64,
                "n_encoder_layers": 2,
                "n_decoder_layers": 2,
                "dropout": 0.0,
            },
        },
        "training": {
            "max_steps": steps,
            "tokens_per_batch": 800,
            "lr": 5e-3,
            "warmup": 30,
            "clip": 1.0,
            "metric": metric,
            "validate_every": steps,
        },
        "evaluation": ["bracket_f1"] if metric == "bracket_f1" else [],
    }
    regard.train(recipe, folder / "out", quiet=True)
    return folder / "out"


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("trees"), 300, "bracket_f1", leaf_words=1)


@pytest.fixture(scope="module")
def beginner(tmp_path_factory):
    """A parser that has learnt little: what holds for every output holds for its outputs."""
    return trained(tmp_path_factory.mktemp("beginner"), 100, "loss")


@pytest.mark.slow
def test_the_grammar_is_learnt(parser):
    done = run("evaluate", parser)
    numbers = dict(line.split()[:2] for line in done.stdout.splitlines() if line.strip())
    trees = read_trees(parser.parent / "held")
    assert score([(tree, right_branching(tree)) for tree in trees]).f1 < 0.5, (
        "it is no matter of branching to the right"
    )
    assert float(numbers["bracket_f1"]) > 0.8, done.stdout


@pytest.mark.slow
def test_brackets_and_drawn_trees(parser, tmp_path):
    text = "the cat sees the dog .\nthe bird near the dog hears the cat .\n"
    done = run("parse", parser, text=text)
    assert done.returncode == 0, done.stderr
    for line, words in zip(done.stdout.splitlines(), text.splitlines(), strict=True):
        assert parse(line).words == words.split()
    drawn = run("parse", parser, "--tree", text="the cat sees the dog .\n").stdout
    assert "└─" in drawn
    assert "NP  the cat" in drawn
    run("parse", parser, "--out", tmp_path / "tree.svg", text="the cat sees the dog .\n")
    picture = (tmp_path / "tree.svg").read_text()
    assert picture.startswith("<svg")
    assert picture.count('class="word"') == 6


@pytest.mark.parametrize("search", [{"beam": 1}, {"beam": 4}, {"sample": True, "temperature": 3.0, "seed": 5}])
def test_every_output_is_a_tree_over_the_words(beginner, search):
    """Also of words that the model has never seen, however many, and where it draws at random."""
    model = regard.load(beginner)
    sentences = ["cat", "xyzzy plugh ( the ) .", " ".join(["the"] * 40), "the cat . the cat ."]
    for tree, words in zip(model.parse(sentences, **search), sentences, strict=True):
        shown = words.replace("( the )", "-LRB- the -RRB-").split()
        assert tree.words == shown


def test_brackets_inside_words_are_spelt_as_in_treebanks(beginner):
    (tree,) = regard.load(beginner).parse(["p27(KIP1) hears f( [x] y[2] )"])
    assert tree.words == ["p27-LRB-KIP1-RRB-", "hears", "f-LRB-", "[x]", "y[2]", "-RRB-"]
    assert parse(str(tree)).words == tree.words, "what is printed is a tree over these words"
    model = regard.load(beginner)
    read = [model.subject(text).ids["source"].tolist() for text in ("the cat ( a dog )", "the cat -LRB- a dog -RRB-")]
    assert read[0] == read[1], "explain reads what parse reads"


def test_brackets_are_aligned_to_words(beginner):
    alignment = regard.load(beginner).align("the cat sees the dog .")
    assert "(S" in alignment.target
    assert run("explain", beginner, "the cat sees the dog .", "--out", beginner / "page.html").returncode == 0


def test_an_empty_line_stays_empty(beginner, tmp_path):
    """As translate and summarise keep it: a line of a long file must not end the work on all others."""
    done = run("parse", beginner, text="the cat\n  \nthe dog\n")
    assert done.returncode == 0, done.stderr
    first, empty, last = done.stdout.splitlines()
    assert (parse(first).words, empty, parse(last).words) == (["the", "cat"], "", ["the", "dog"])
    model = regard.load(beginner)
    assert model.parse(["", "the cat"])[0] is None
    assert model.texts([""]) == [""]
    run("parse", beginner, "--out", tmp_path / "tree.svg", text="\nthe cat\n")
    assert (tmp_path / "tree.svg").read_text().count('class="word"') == 2


def test_errors_and_explanations_speak_of_parses(beginner):
    said = one_line(run("parse", beginner, "--max-source", "3", text="the cat sees the dog .\n"), 1)
    assert "line 1 is too long to parse: got " in said
    shown = run("explain", beginner, "the cat sees the dog .").stdout
    assert "• The parse: (S" in shown
    assert "translation" not in shown


def test_bad_input_is_one_line(beginner, tmp_path):
    assert "drawn as .svg" in one_line(run("parse", beginner, "--out", "tree.gif", text="a\n"), 2)
    assert "no sentence to draw" in one_line(run("parse", beginner, "--out", tmp_path / "none.svg"), 2)
    assert not (tmp_path / "none.svg").exists()
    (tmp_path / "bad.trees").write_text("(S (NP (NN a))\n")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"task: parsing\ndata: {{train: {{trees: {tmp_path / 'bad.trees'}}}}}\ntraining: {{max_steps: 1}}\n"
    )
    message = one_line(run("train", recipe, "--out", tmp_path / "out"), 1)
    assert "line 1 of" in message
    assert "not closed" in message
