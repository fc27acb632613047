"""The table of how words before and after a word change its vector."""

from regard.story.steps._contextual import move_table


def test_the_least_change_that_the_claim_gives_stands_in_the_table():
    table = move_table({"GPT-2": {"before": [(0.9, 1.5), (0.8, 0.29), (0.7, 0.8)]}})
    assert table.columns[-2:] == ["largest change", "least of the seeds"]
    assert table.rows[0][-2:] == [1.5, 0.29]
