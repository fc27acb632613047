"""Policies as a user meets them: trained, resumed inside a collection, evaluated beside baselines, explained."""

import json
import shlex

import pytest
import torch

import regard
from regard.api import validate
from regard.cli import main
from regard.core import weights
from regard.core.errors import ConfigError, DataError

BANDIT = {"name": "bandit", "arms": 3, "pulls": 8}
MDP = {"name": "mdp", "states": 3, "actions": 2, "horizon": 3, "episodes": 2}


def recipe(environment=BANDIT, *, epochs=40, **training):
    return {
        "task": "policy",
        "data": {
            "environment": environment, "trials": 100, "passes": 3, "parts": 2, "smoothing": 0.9, "validation": 300,
        },
        "model": {"options": {"d_model": 8, "blocks": ((8,), (8, 8))}},
        "training": {"max_epochs": epochs, "lr": 1e-2, "validate_every": 6 * epochs, **training},
    }  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("policy") / "out"
    regard.train(recipe(), out, quiet=True)
    return out


def test_a_policy_learns_to_explore_and_is_shown_beside_baselines(trained, capsys):
    assert main(["evaluate", str(trained), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert set(numbers) == {"reward", "greedy", "random", "ucb1", "thompson", "gittins"}
    assert numbers["random"] == pytest.approx(4, abs=0.3)
    assert numbers["reward"] > numbers["random"] + 0.3
    assert numbers["reward"] < numbers["gittins"] + 0.3
    again = validate(trained, changes={"training.rows_per_batch": "7"})
    assert again == pytest.approx(numbers, rel=1e-3), "whatever the batches"


@pytest.mark.parametrize("environment", [BANDIT, MDP], ids=["bandit", "mdp"])
def test_a_run_in_parts_gives_the_same_bits(environment, tmp_path):
    """Updates 4 and 7 are inside a collection of six batches: what was played is in the checkpoint."""
    made = recipe(environment, epochs=2, checkpoint_every=1)
    made["data"] |= {"trials": 20, "validation": 10}
    for out, parts in (("whole", [9]), ("parts", [4, 6, 7, 9])):
        for last in parts:
            changes = {"training.max_epochs": "null", "training.max_steps": str(last)}
            regard.train(made, tmp_path / out, changes=changes, quiet=True)
    one, other = (weights.read_tensors(tmp_path / out / "checkpoints" / "step-00000009") for out in ("whole", "parts"))
    assert one.keys() == other.keys()
    assert not [name for name in one if not torch.equal(one[name], other[name])]


def test_decisions_and_trials(trained):
    model = regard.load(trained)
    first, second = model.decide(["", "0:1 0:1 0:1"])
    assert sum(second.probabilities) == pytest.approx(1)
    assert second.probabilities[0] > first.probabilities[0], "an arm that pays is pulled again"
    trials = model.play(3, first=5)
    assert [len(trial.actions) for trial in trials] == [8] * 3
    assert trials[1].reward == sum(trials[1].rewards)
    assert model.play(1, first=6)[0].actions == trials[1].actions
    with pytest.raises(DataError, match="no such action"):
        model.decide(["7:1"])


def test_which_pulls_a_decision_looked_at(trained, capsys):
    assert main(["explain", str(trained), "0:1 1:0 2:1"]) == 0
    shown = capsys.readouterr().out
    assert "The answer is 'action" in shown
    assert "The last decision looked at" in shown
    assert main(["explain", str(trained), "0:1 nothing"]) == 1
    assert "this is no trial: got 'nothing'" in capsys.readouterr().err


def test_what_does_not_fit_is_said(trained, tmp_path):
    made = recipe()
    made["data"]["parts"] = 200
    with pytest.raises(ConfigError, match=r"data\.parts is larger than data\.trials"):
        regard.train(made, tmp_path / "a", quiet=True)
    with pytest.raises(ConfigError, match="the model does not fit this environment"):
        validate(trained, changes={"data.environment": "{name: bandit, arms: 4, pulls: 8}"})


@pytest.mark.parametrize("environment", [BANDIT, MDP], ids=["bandit", "mdp"])
def test_the_example_that_training_prints_can_be_run(environment, tmp_path, capsys):
    made = recipe(environment, epochs=1)
    made["data"] |= {"trials": 10, "validation": 5}
    regard.train(made, tmp_path / "out", quiet=True)
    example = regard.api.usage(tmp_path / "out")
    assert main(shlex.split(example)[1:]) == 0, capsys.readouterr().err
    assert example.replace(str(tmp_path / "out"), "FOLDER") in (tmp_path / "out" / "README.md").read_text()
