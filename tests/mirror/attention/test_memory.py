"""The NTM's addressing by its equations, and a memory that copies."""

import torch

import regard
from regard.attention.memory import Address, locate, read_by_content, read_memory, write


def test_content_addressing_is_the_cosine_softmax():
    memory, key, strength = torch.randn(2, 6, 4), torch.randn(2, 3, 4), torch.rand(2, 3) * 9
    attended = read_by_content(memory, Address(key, strength))
    cosine = torch.nn.functional.cosine_similarity(key[:, :, None], memory[:, None], dim=-1)
    expected = torch.softmax(strength[..., None] * cosine, -1)
    torch.testing.assert_close(attended.weights.squeeze(2), expected)
    torch.testing.assert_close(attended.context.squeeze(2), expected @ memory)
    torch.testing.assert_close(read_memory(memory, expected), expected @ memory)


def test_strength_sharpens():
    memory = torch.eye(4)[None]
    weights = [
        read_by_content(memory, Address(memory[:, :1], torch.tensor([[b]]))).weights[0, 0, 0, 0]
        for b in (0.0, 1.0, 50.0)
    ]
    assert weights[0] == 0.25
    assert weights[0] < weights[1] < weights[2]
    assert weights[2] > 0.999


def test_gate_shift_and_sharpen():
    memory = torch.eye(5)[None]
    previous = torch.zeros(1, 1, 5)
    previous[..., 1] = 1.0
    stay = Address(torch.randn(1, 1, 5), torch.ones(1, 1), gate=torch.zeros(1, 1))
    torch.testing.assert_close(locate(memory, stay, previous), previous)
    step_on = stay._replace(shift=torch.tensor([[[0.0, 0.0, 1.0]]]))
    assert locate(memory, step_on, previous)[0, 0].tolist() == [0, 0, 1, 0, 0]
    step_back = stay._replace(shift=torch.tensor([[[1.0, 0.0, 0.0]]]))
    assert locate(memory, step_back, previous)[0, 0].tolist() == [1, 0, 0, 0, 0]
    blurred = stay._replace(shift=torch.tensor([[[0.1, 0.8, 0.1]]]))
    before = locate(memory, blurred, previous)
    after = locate(memory, blurred._replace(sharpen=torch.full((1, 1), 3.0)), previous)
    torch.testing.assert_close(after, before**3 / (before**3).sum())


def test_write_erases_then_adds():
    memory = torch.randn(2, 4, 3)
    weights = torch.zeros(2, 1, 4)
    weights[:, 0, 2] = 1.0
    word = torch.randn(2, 1, 3)
    written = write(memory, weights, torch.ones(2, 1, 3), word)
    torch.testing.assert_close(written[:, 2], word[:, 0])
    torch.testing.assert_close(written[:, [0, 1, 3]], memory[:, [0, 1, 3]])


def test_a_sequence_written_by_shifting_is_read_back_by_content():
    words, memory = torch.randn(1, 5, 8), torch.zeros(1, 5, 8)
    place = torch.zeros(1, 1, 5)
    place[..., 0] = 1.0
    on = torch.tensor([[[0.0, 0.0, 1.0]]])
    for step in range(5):
        memory = write(memory, place, torch.ones(1, 1, 8), words[:, step : step + 1])
        place = locate(memory, Address(torch.zeros(1, 1, 8), torch.ones(1, 1), torch.zeros(1, 1), on), place)
    torch.testing.assert_close(memory, words)
    with regard.watch() as record:
        context = read_by_content(memory, Address(words[:, 3:4], torch.full((1, 1), 100.0))).context
    torch.testing.assert_close(context[0, 0], words[:, 3], atol=1e-3, rtol=0)
    assert record.sites == ["memory"]


def test_several_heads_erase_one_after_the_other_and_add_together():
    """M' = M ∏ₕ (1 − wₕ eₕᵀ) + Σₕ wₕ aₕᵀ, a number at a time."""
    memory, weights = torch.randn(2, 4, 5), torch.softmax(torch.randn(2, 3, 4), -1)
    erase, add = torch.rand(2, 3, 5), torch.randn(2, 3, 5)
    written = write(memory, weights, erase, add)
    for row in range(2):
        for place in range(4):
            for feature in range(5):
                wanted = memory[row, place, feature].clone()
                for head in range(3):
                    wanted *= 1 - weights[row, head, place] * erase[row, head, feature]
                wanted += sum(weights[row, head, place] * add[row, head, feature] for head in range(3))
                torch.testing.assert_close(written[row, place, feature], wanted)
    alone = write(memory, weights[:, :1], erase[:, :1], add[:, :1])
    torch.testing.assert_close(alone, memory * (1 - weights[:, :1].mT * erase[:, :1]) + weights[:, :1].mT * add[:, :1])


def test_heads_are_addressed_each_by_its_own_key_and_strength():
    memory, key, strength = torch.randn(2, 6, 4), torch.randn(2, 3, 4), torch.rand(2, 3) * 5
    weights = locate(memory, Address(key, strength))
    for row in range(2):
        for head in range(3):
            cosine = torch.cosine_similarity(memory[row], key[row, head].expand(6, 4), dim=-1)
            torch.testing.assert_close(weights[row, head], torch.softmax(strength[row, head] * cosine, -1))


def test_watching_a_write_changes_nothing_and_shows_what_was_there():
    memory, weights = torch.randn(2, 4, 5), torch.softmax(torch.randn(2, 3, 4), -1)
    erase, add = torch.rand(2, 3, 5), torch.randn(2, 3, 5)
    alone = write(memory, weights, erase, add, site="pen")
    with regard.watch(parts=True) as record:
        watched = write(memory, weights, erase, add, site="pen")
        write(memory, weights, erase, add)
    assert torch.equal(alone, watched)
    assert record.sites == ["pen"]
    torch.testing.assert_close(record["pen"].weights[:, :, 0], weights)
    torch.testing.assert_close(record["pen"].values[:, 0], memory)
