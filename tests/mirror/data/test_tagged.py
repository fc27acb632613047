"""Sentences with a tag for each word."""

import pytest
import torch

from regard.core.errors import DataError
from regard.data.tagged import IGNORED, Tagged, TaggedRows, read_tagged
from regard.data.text import make_tokenizer

TREES = """(S (NP (DT The) (NN cat)) (VP (VBD sat) (NP (-NONE- *)) (PP (IN on) (NP (PRPP its) (NN mat)))) (PERIOD .))
PMC1\t(S (NP (NNS dogs)) (VP (VBP run)) (-LRB- -LRB-) (. .))

"""


def test_leaves_of_trees(tmp_path):
    (tmp_path / "trees").write_text(TREES)
    assert read_tagged(tmp_path / "trees") == [
        Tagged(["The", "cat", "sat", "on", "its", "mat", "."], ["DT", "NN", "VBD", "IN", "PRP$", "NN", "."]),
        Tagged(["dogs", "run", "-LRB-", "."], ["NNS", "VBP", "-LRB-", "."]),
    ]


@pytest.mark.parametrize("text", ["(S (NN cat)\n", "a cat sat\n", "\n", "(S (NP))\n"])
def test_what_is_no_tree_is_one_line(text, tmp_path):
    (tmp_path / "trees").write_text(text)
    with pytest.raises(DataError, match="is not a tree|no tagged sentence") as caught:
        read_tagged(tmp_path / "trees")
    assert "\n" not in str(caught.value)


def test_labels_stand_at_the_first_piece_of_a_word():
    sentence = Tagged(["cats", "zzz", "sat"], ["NNS", "FW", "VBD"])
    for kind, cls in (("space", False), ("wordpiece", True)):
        tokenizer = make_tokenizer(
            kind, ["cat sat", "cats sat"] * 3, vocab_size=14 if cls else 20, marks="bert" if cls else "ours"
        )
        rows = TaggedRows(tokenizer, [sentence, Tagged(["sat"], ["VBD"])], ["NNS", "VBD"], max_len=32, cls=cls)
        made = rows.tensors([0, 1])
        asked = made["labels"][0] != IGNORED
        assert made["labels"][0][asked].tolist() == [0, 2, 1]  # FW is not among the tags
        assert made["labels"].shape == made["input_ids"].shape
        assert int(asked.nonzero()[0]) == int(cls)
        assert (made["labels"][1][~made["attention_mask"][1]] == IGNORED).all()
        short = TaggedRows(tokenizer, [sentence], ["NNS", "VBD"], max_len=3, cls=cls).tensors([0])
        assert short["input_ids"].shape[1] == 3
        assert torch.equal(short["attention_mask"], torch.ones(1, 3, dtype=torch.bool))
