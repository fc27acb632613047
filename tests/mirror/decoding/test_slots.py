"""Slots stay a run from 0 on, whoever comes and goes, and blocks of one size stay whole."""

from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.slots import Slots


@given(st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(0, 20), max_size=3)), max_size=20))
def test_taken_slots_have_no_gaps(turns):
    slots, contents = Slots(100), {}
    for owner, (count, leaving) in enumerate(turns):
        contents |= dict.fromkeys(slots.take(owner, count), owner)
        before = dict(contents)
        moves = slots.release(leaving)
        kept = {other: slots[other] for other in range(owner + 1) if other in slots._blocks}
        contents = {moves.get(slot, slot): who for slot, who in before.items() if who in kept}
        assert sorted(contents) == list(range(slots.used))
        for other, block in kept.items():
            assert all(contents[slot] == other for slot in block), "what moved is still its owner's"


def test_blocks_of_one_size_stay_whole():
    slots = Slots(12)
    for owner in range(4):
        slots.take(owner, 3)
    assert slots.release([1]) == {9: 3, 10: 4, 11: 5}
    assert (slots[0], slots[2], slots[3]) == ([0, 1, 2], [6, 7, 8], [3, 4, 5])
    assert slots.fits(3)
    assert not slots.fits(4)
