"""Environments and their baselines: what they pay, what they depend on, what the literature says of them."""

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError, UsageError
from regard.data.environments import History, make_environment, step_features
from regard.data.environments._bandit_agents import gittins_indices
from regard.data.environments.gymnasium import as_gymnasium
from regard.data.experience import advantages
from regard.evaluation.evaluators.agents import agent_rewards

BANDIT = make_environment({"name": "bandit", "arms": 3, "pulls": 8})
MDP = make_environment({"name": "mdp", "states": 4, "actions": 3, "horizon": 5, "episodes": 4})


@pytest.mark.parametrize("environment", [BANDIT, MDP], ids=["bandit", "mdp"])
def test_an_environment_depends_on_its_number_alone(environment):
    together, alone = environment.begin(1, 0, np.arange(5)), environment.begin(1, 0, np.array([3]))
    other = environment.begin(1, 1, np.array([3]))
    unlike = 0
    for time in range(environment.n_steps):
        action = time % environment.n_actions
        rewards, ended = together.step(np.full(5, action))
        single, over = alone.step(np.array([action]))
        unlike += int(other.step(np.array([action]))[0][0] != single[0])
        assert (single[0], over[0], alone.states[0]) == (rewards[3], ended[3], together.states[3])
        assert ended[3] == environment.ends_after(time)
    assert unlike, "another split has other environments"


def test_bandits_pay_what_their_arms_say():
    worlds = BANDIT.begin(1, 0, np.arange(4000))
    paid = np.mean([worlds.step(np.zeros(4000, dtype=int))[0] for _ in range(8)], axis=0)
    chance = worlds.chances[:, 0]
    assert chance.mean() == pytest.approx(0.5, abs=0.02)
    assert np.corrcoef(paid, chance)[0, 1] > 0.8
    assert paid.mean() == pytest.approx(chance.mean(), abs=0.01)


def test_mdps_move_and_pay_as_they_are_drawn():
    worlds = MDP.begin(1, 0, np.arange(3000))
    assert worlds.means.mean() == pytest.approx(1, abs=0.03)
    assert worlds.means.std() == pytest.approx(1, abs=0.03)
    np.testing.assert_allclose(worlds.sums[..., -1], 1)
    first = np.diff(worlds.sums[:, 0, 1], prepend=0)
    rewards, _ = worlds.step(np.ones(3000, dtype=int))
    assert (rewards - worlds.means[:, 0, 1]).std() == pytest.approx(1, abs=0.04)
    reached = np.eye(4)[worlds.states]
    assert abs((reached - first).mean(0)).max() < 0.03


@pytest.mark.parametrize(("discount", "state", "index"), [
    (0.9, (0, 0), 0.7029), (0.9, (0, 1), 0.5001), (0.9, (1, 0), 0.8001), (0.99, (0, 0), 0.8699),
])  # fmt: skip
def test_gittins_indices_are_those_of_his_table(discount, state, index):
    """Gittins, Glazebrook and Weber 2011, tables 8.7 and 8.10: a and b are one more than wins and losses."""
    assert gittins_indices(10, discount)[state] == pytest.approx(index, abs=3e-3)


def test_baselines_stand_in_the_order_of_the_literature():
    """Duan et al. 2016, table 1 (N = 10, K = 5): random 5.0, Thompson 5.7, Gittins 6.6."""
    bandit = make_environment({"name": "bandit", "arms": 5, "pulls": 10})
    reward = {name: agent_rewards(bandit, name, 1, 4000).mean() for name in bandit.agents(1, 1)}
    assert reward["random"] == pytest.approx(5.0, abs=0.1)
    assert reward["thompson"] == pytest.approx(5.7, abs=0.15)
    assert reward["gittins"] == pytest.approx(6.6, abs=0.15)
    assert reward["random"] < reward["ucb1"] < reward["gittins"]
    reward = {name: agent_rewards(MDP, name, 1, 300).mean() for name in MDP.agents(1, 1)}
    assert reward["random"] == pytest.approx(20, abs=1)
    assert reward["psrl"] > reward["random"] + 3


def test_what_a_policy_reads():
    history = MDP.read("0/2:1.5 3/1:-0.25 2")
    assert history.states.tolist() == [[0, 3, 2]]
    steps = torch.cat([step_features(MDP, history, time) for time in range(3)])
    assert steps[:, :4].argmax(1).tolist() == [0, 3, 2]
    assert steps[:, 4:7].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]], "the last action; none at first"
    assert steps[:, 7].tolist() == [0, 1.5, -0.25]
    assert not steps[:, 8].any()
    fifth = MDP.read("0/0:1 1/0:1 1/0:1 1/0:1 1/0:1 0")
    assert step_features(MDP, fifth, 5)[0, 8] == 1, "an episode has just ended"
    assert BANDIT.read("").states.shape == (1, 1)
    assert History.empty(2, 3).actions.tolist() == [[-1] * 3] * 2


@pytest.mark.parametrize(("environment", "text", "problem"), [
    (BANDIT, "0:1 x", "this is no trial: got 'x'"), (BANDIT, "3:1", "no such action or state"),
    (MDP, "0/0:1 9", "no such action or state"), (BANDIT, "0:1 " * 8, "this trial is over"), (BANDIT, "0:", "no trial"),
    (MDP, "0/0:1! 1", "this is no trial: got '0/0:1!'"), (MDP, "0/0:1 1/1:0.2", "no trial.*action:reward … state"),
    (MDP, "0:1 1", "this is no trial: got '0:1'"), (MDP, "0/0:1 ²", "this is no trial: got '²'"),
    (MDP, "0/0:1 " + "9" * 5000, "this is no trial"),
])  # fmt: skip
def test_trials_that_are_none(environment, text, problem):
    with pytest.raises(DataError, match=problem):
        environment.read(text)


def test_unknown_environments():
    with pytest.raises(UsageError, match="unknown environment"):
        make_environment({"name": "bandits"})
    with pytest.raises(ConfigError, match="arm is unknown: did you mean 'arms'"):
        make_environment({"name": "bandit", "arm": 3})


def test_advantages_by_hand():
    rewards, values = torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([[0.5, 1.0, 1.5]])
    last = 2 - 1.5
    middle = 0 + 0.9 * 1.5 - 1.0 + 0.9 * 0.8 * last
    first = 1 + 0.9 * 1.0 - 0.5 + 0.9 * 0.8 * middle
    gained = advantages(rewards, values, discount=0.9, smoothing=0.8)
    torch.testing.assert_close(gained, torch.tensor([[first, middle, last]]))


def test_one_environment_with_the_interface_of_gymnasium():
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    game = as_gymnasium(MDP)
    state, _ = game.reset(seed=5)
    assert state == 0
    worlds, total = MDP.begin(5, 0, np.zeros(1, dtype=int)), 0.0
    for time in range(MDP.n_steps):
        state, reward, over, cut, _ = game.step(time % 3)
        expected, _ = worlds.step(np.array([time % 3]))
        assert (state, reward, cut) == (worlds.states[0], expected[0], False)
        total += reward
    assert over
    assert game.observation_space.contains(state)


def test_an_environment_of_gymnasium():
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    lake = make_environment({"name": "gymnasium", "id": "FrozenLake-v1", "steps": 30})
    assert (lake.n_states, lake.n_actions) == (16, 4)
    one, other = (lake.begin(1, 0, np.arange(3)) for _ in range(2))
    ends = 0
    for time in range(30):
        rewards, ended = one.step(np.full(3, time % 4))
        again, _ = other.step(np.full(3, time % 4))
        assert rewards.tolist() == again.tolist()
        assert one.states.tolist() == other.states.tolist()
        ends += int(ended.sum())
    assert ends
    said = "is not discrete: got a Box of states and a Discrete of actions, expected .*Give an environment such as Froz"
    with pytest.raises(ConfigError, match=said):
        _ = make_environment({"name": "gymnasium", "id": "CartPole-v1"}).n_states
    with pytest.raises(ConfigError, match="cannot make the environment Absent-v0: .*Give the id of one") as error:
        _ = make_environment({"name": "gymnasium", "id": "Absent-v0"}).n_states
    assert "expected" not in str(error.value)


def test_the_id_of_an_environment_cannot_name_a_module_to_import():
    with pytest.raises(ConfigError, match="names a module to import"):
        make_environment({"name": "gymnasium", "id": "antigravity:Env-v0"})


def test_a_trial_as_text_gives_the_features_of_training_where_episodes_end_anywhere():
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    lake = make_environment({"name": "gymnasium", "id": "FrozenLake-v1", "steps": 30})
    worlds, played, words = lake.begin(1, 0, np.arange(1)), History.empty(1, 30), []
    for time in range(29):
        state, action = int(worlds.states[0]), time % 4
        played.states[0, time], played.actions[0, time] = state, action
        (played.rewards[0, time],), (played.ended[0, time],) = worlds.step(np.array([action]))
        words.append(f"{state}/{action}:{played.rewards[0, time]:g}{'!' if played.ended[0, time] else ''}")
    played.states[0, 29] = int(worlds.states[0])
    assert played.ended[0, :28].any()
    read = lake.read(" ".join([*words, str(worlds.states[0])]))
    for time in range(30):
        assert torch.equal(step_features(lake, read, time), step_features(lake, played, time)), time
    with pytest.raises(DataError, match="this is no trial: got '0/0!:1', expected .* with ! after a step that ended"):
        lake.read("0/1:0! 0/0!:1 4")
