"""Pretraining rows: who is paired with whom, what is hidden, and that only seed, epoch and row decide it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.core.errors import DataError, UsageError
from regard.data.documents import Sentences, encode_documents, sentences
from regard.data.masked import MaskedRows
from regard.data.running_text import RunningText
from regard.data.text import make_tokenizer

WORDS = [f"w{number:02d}" for number in range(60)]


def corpus(documents: int, length: int = 30) -> str:
    """Every document has words of its own, so that a token tells where it comes from."""
    draw = np.random.default_rng(0)
    lines = []
    for document in range(documents):
        own = WORDS[document % 30 * 2 :][:2]
        lines += [" ".join(draw.choice(own, draw.integers(3, 12))) for _ in range(length)]
        lines.append("")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer("wordpiece", WORDS, vocab_size=200, marks="bert", min_count=1)


def stored(folder: Path, tokenizer, documents: int = 30, length: int = 30) -> Sentences:
    (folder / "text.txt").write_text(corpus(documents, length))
    text = RunningText((folder / "text.txt",), "blank_lines")
    return encode_documents(text, tokenizer, folder / "made", longest=29)


def rows(text: Sentences, tokenizer, **options) -> MaskedRows:
    return MaskedRows(text, tokenizer, **{"max_len": 32, "rows": 8, "seed": 5, **options})


def test_sentences_and_documents(tmp_path):
    path = tmp_path / "text"
    path.write_text(
        ' \n = One = \n Mr Fox ran . He hid ! " Why ? " she said . \n \n = = Part = = \n It costs 3.5 dollars. Or 4? \n'
        " = Two = \n no end here \n"
    )
    expected = ["Mr Fox ran .", "He hid !", '" Why ? " she said .', "It costs 3.5 dollars.", "Or 4?", None]
    assert list(sentences(RunningText((path,), "headings"))) == [*expected, "no end here", None]


def test_documents_come_back_from_disk(tmp_path, tokenizer):
    text = stored(tmp_path, tokenizer, documents=3, length=4)
    lines = corpus(3, 4).split("\n")
    assert (len(text), text.documents) == (12, 3)
    assert text.firsts.tolist() == [0, 4, 8, 12]
    assert [tokenizer.decode(text.ids(n, n + 1)) for n in range(12)] == [line for line in lines if line]
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(DataError, match="holds no sentences"):
        encode_documents(RunningText((tmp_path / "empty",)), tokenizer, tmp_path / "none", longest=5)


def test_a_long_sentence_becomes_several(tmp_path, tokenizer):
    (tmp_path / "text.txt").write_text(" ".join(WORDS))
    text = encode_documents(RunningText((tmp_path / "text.txt",)), tokenizer, tmp_path / "made", longest=25)
    assert np.diff(text.starts).tolist() == [25, 25, 10]


def test_shares_of_masks(tmp_path, tokenizer):
    """15 % are asked for; of these 80 % are hidden, 10 % replaced, 10 % left."""
    made, totals = rows(stored(tmp_path, tokenizer), tokenizer), np.zeros(4)
    for number in range(30):
        for batch in made.epoch(number):
            ids, labels = batch["input_ids"], batch["labels"]
            asked = labels >= 0
            words = batch["attention_mask"] & (ids != tokenizer.cls) & (ids != tokenizer.sep)
            assert not (asked & ~words).any(), "special tokens and padding are never asked for"
            totals += [int(words.sum()), int(asked.sum()), int((ids[asked] == tokenizer.mask).sum()),
                       int((ids[asked] == labels[asked]).sum())]  # fmt: skip
            assert (ids[~asked] != tokenizer.mask).all()
    words, asked, hidden, left = totals
    assert words > 100_000
    assert asked / words == pytest.approx(0.15, abs=0.005)
    # Three deviations of so many draws; a random token is the right one once in 120.
    assert hidden / asked == pytest.approx(0.8, abs=3 * (0.8 * 0.2 / asked) ** 0.5)
    assert left / asked == pytest.approx(0.1 + 0.1 / 120, abs=3 * (0.1 * 0.9 / asked) ** 0.5)


def originals(batch, i: int) -> torch.Tensor:
    """The row before anything was hidden."""
    return torch.where(batch["labels"][i] >= 0, batch["labels"][i], batch["input_ids"][i])


def test_pairs_are_what_they_say(tmp_path, tokenizer):
    text, counts = stored(tmp_path, tokenizer), np.zeros(2)
    home = {}
    for document in range(text.documents):
        begin, end = text.firsts[document : document + 2].tolist()
        home |= dict.fromkeys(text.ids(begin, end), document)
    for number in range(10):
        for batch in rows(text, tokenizer).epoch(number):
            for i in range(batch.size):
                ids = originals(batch, i)
                real, segments = batch["attention_mask"][i], batch["token_type_ids"][i]
                assert ids[0] == tokenizer.cls
                assert (ids == tokenizer.sep).sum() == 2
                assert ids[real][-1] == tokenizer.sep
                assert not segments[~real].any()
                word = real & (ids != tokenizer.cls) & (ids != tokenizer.sep)
                first_homes, second_homes = ({home[int(t)] for t in ids[word & (segments == k)]} for k in (0, 1))
                assert len(first_homes) == len(second_homes) == 1
                assert int(first_homes != second_homes) == batch["pair_labels"][i]
                counts[int(first_homes != second_homes)] += 1
            assert batch["input_ids"].shape[1] <= 32
    assert counts[1] / counts.sum() == pytest.approx(0.5, abs=0.03)


def test_every_sentence_is_in_one_row(tmp_path, tokenizer):
    text = stored(tmp_path, tokenizer)
    made = rows(text, tokenizer)
    runs = made._runs
    assert runs[:, 1].tolist() == [0, *runs[:-1, 2].tolist()]
    assert runs[-1, 2] == len(text)
    seen = [row for batch in made.epoch(3) for row in batch.rows]
    assert sorted(seen) == list(range(len(runs)))
    assert len(list(made.epoch(3))) == made.batches_in_epoch(3)


def same(first, second) -> bool:
    return first.rows == second.rows and all(torch.equal(first[name], second[name]) for name in first.tensors)


@pytest.mark.parametrize("start", [0, 1, 7])
def test_an_epoch_goes_on_at_any_batch(start, tmp_path, tokenizer):
    text = stored(tmp_path, tokenizer)
    whole, rest = list(rows(text, tokenizer).epoch(2)), list(rows(text, tokenizer).epoch(2, start))
    assert len(rest) == len(whole) - start
    assert all(map(same, rest, whole[start:]))


def by_row(made: MaskedRows, number: int) -> dict[int, list[list[int]]]:
    return {
        row: [batch[name][i][batch["attention_mask"][i]].tolist() for name in ("input_ids", "labels", "token_type_ids")]
        for batch in made.epoch(number)
        for i, row in enumerate(batch.rows)
    }


def test_masks_follow_from_seed_epoch_and_row(tmp_path, tokenizer):
    text = stored(tmp_path, tokenizer)
    first = by_row(rows(text, tokenizer), 1)
    assert by_row(rows(text, tokenizer, rows=3), 1) == first
    assert by_row(rows(text, tokenizer, shuffle=False, rows=1), 1) == first
    for other in (by_row(rows(text, tokenizer), 2), by_row(rows(text, tokenizer, seed=6), 1)):
        assert sum(other[row] == first[row] for row in first) < len(first) / 10


def test_without_pairs(tmp_path, tokenizer):
    text = stored(tmp_path, tokenizer, documents=1)
    batch = next(rows(text, tokenizer, pairs=False).epoch(0))
    assert "pair_labels" not in batch
    assert not batch["token_type_ids"].any()
    assert ((batch["input_ids"] == tokenizer.sep).sum(1) == 1).all()
    with pytest.raises(DataError, match=r"two documents.*data\.documents"):
        rows(text, tokenizer)
    with pytest.raises(UsageError, match="no batch 999"):
        rows(text, tokenizer, pairs=False).epoch(0, 999)
