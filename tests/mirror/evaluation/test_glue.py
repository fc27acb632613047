"""The GLUE table: heads where they fit, probes where they do not; the probe's regression against a library's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from sklearn import linear_model

from regard import store
from regard.core.errors import DataError, UsageError
from regard.data.text import make_tokenizer
from regard.evaluation.glue import glue, logistic, vectors
from regard.models import config_of, make_model
from regard.store import StoredModel

TINY = {"d_model": 32, "n_layers": 1, "n_heads": 2, "d_ff": 64, "max_len": 32}
GOOD, BAD, FILL = ["good", "fine"], ["bad", "poor"], ["the", "film", "was", "a", "long", "story"]


@pytest.fixture(scope="module")
def glue_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, dice = tmp_path_factory.mktemp("glue"), random.Random(0)
    for name, header in (("SST-2", "sentence\tlabel"), ("RTE", "index\tsentence1\tsentence2\tlabel"), ("STS-B", "")):
        (folder / name).mkdir()
        for split, count in (("train", 200), ("dev", 60)):
            lines = [header] if header else []
            for _ in range(count):
                label, words = dice.randint(0, 1), dice.sample(FILL, 4)
                one = " ".join([*words, dice.choice(GOOD if label else BAD)])
                other = one if label else " ".join(dice.sample(FILL, 2))
                relation = "entailment" if label else "not_entailment"
                rows = {"SST-2": f"{one}\t{label}", "RTE": f"0\t{one}\t{other}\t{relation}"}
                lines.append(rows.get(name, f"g\tf\ty\t0\t{5 * label}.0\t{one}\t{other}"))
            (folder / name / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def model(head: str = "none", labels: list[str] | None = None, **extra: object) -> StoredModel:
    torch.manual_seed(0)
    lines = [" ".join([*FILL, *GOOD, *BAD])] * 3
    tokenizer = make_tokenizer("wordpiece", lines, vocab_size=120, marks="bert")
    sizes = {"vocab_size": tokenizer.vocab_size, "head": head, "n_labels": len(labels) if labels else 1}
    config = config_of("bert", {**TINY, **sizes})
    told = {"labels": labels, **extra} if labels else dict(extra)
    task = "classification" if head == "classes" else "sentence_similarity"
    return StoredModel(task, "bert", config, make_model("bert", config).eval(), tokenizer, tokenizer, extra=told)


def test_an_encoder_is_probed(glue_folder: Path) -> None:
    said: list[str] = []
    rows = {row.task: row for row in glue(model(), glue_folder, say=said.append)}
    assert {row.split for row in rows.values()} == {"dev"}
    assert {name: (row.how, row.rows) for name, row in rows.items()} == {
        "SST-2": ("probe", 60),
        "STS-B": ("cosine", 60),
        "RTE": ("probe", 60),
    }
    assert rows["SST-2"].scores["accuracy"] > 0.9  # a bag of words is enough, even with random weights
    assert rows["RTE"].scores["accuracy"] > 0.9
    assert rows["STS-B"].scores["spearman"] > 0.8
    assert len(said) == 3
    again = glue(model(), glue_folder)
    assert again == list(rows.values())


def test_a_head_is_used_for_its_own_task(glue_folder: Path, tmp_path: Path) -> None:
    names = ["positive", "negative"]  # in another order than the task's
    stored = model("classes", names)
    rows = {row.task: row for row in glue(stored, glue_folder)}
    assert {name: row.how for name, row in rows.items()} == {"SST-2": "fine-tuned", "STS-B": "cosine", "RTE": "probe"}
    store.save_model(tmp_path / "models" / "sst2", stored)
    store.save_model(tmp_path / "models" / "stsb", model("classes", regression=True))
    own = glue(tmp_path / "models", glue_folder)
    assert [(row.task, row.how) for row in own] == [("SST-2", "fine-tuned"), ("STS-B", "fine-tuned")]
    assert own[0] == rows["SST-2"]
    flipped = model("classes", names[::-1])
    flipped.model.load_state_dict(stored.model.state_dict())
    other = {row.task: row for row in glue(flipped, glue_folder)}["SST-2"].scores["accuracy"]
    assert other == pytest.approx(1 - own[0].scores["accuracy"])
    assert glue(str(tmp_path / "models" / "sst2"), glue_folder) == list(rows.values())


def test_vectors_do_not_depend_on_their_company() -> None:
    stored, texts = model(), ["the film", "the long long story was good", "the film"]
    together = vectors(stored, texts)
    alone = torch.cat([vectors(stored, [text]) for text in texts])
    assert torch.allclose(together, alone, atol=1e-6)


def test_logistic_as_sklearn() -> None:
    features = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    labels = (features[:, 0] + features[:, 1] > 0.3).long() + (features[:, 2] > 0.5).long()
    ours = logistic(features, labels, 3, 0.01)
    theirs = linear_model.LogisticRegression(C=1 / (0.01 * 200), tol=1e-8, max_iter=1000).fit(
        features.numpy(), labels.numpy()
    )
    wanted = torch.tensor(theirs.predict_log_proba(features.numpy())).float()
    assert torch.allclose(ours(features).log_softmax(-1), wanted, atol=5e-3)


def test_what_is_no_encoder_or_no_glue(glue_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no GLUE task"):
        glue(model(), tmp_path)
    stored = model()
    stored.source_tokenizer = None
    with pytest.raises(UsageError, match="needs a text encoder"):
        glue(stored, glue_folder)
    with pytest.raises(DataError, match="not a model folder"):
        glue(tmp_path / "none", glue_folder)
