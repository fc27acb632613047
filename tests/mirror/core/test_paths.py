"""Paths with variables: they are expanded, and the variable that is missing is the one that the error names."""

import pytest

from regard.core.errors import DataError
from regard.core.paths import expand_path


def test_a_missing_variable_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.delenv("MY_TEXTS", raising=False)
    assert expand_path("$REGARD_DATA/a.txt") == tmp_path / "a.txt"
    for text in ("$MY_TEXTS/a.txt", "${MY_TEXTS}/a.txt", "$REGARD_DATA/$MY_TEXTS"):
        with pytest.raises(DataError, match="the variable MY_TEXTS is not set") as error:
            expand_path(text)
        assert error.value.remedy == "Set it: export MY_TEXTS=/path/to/folder"
    with pytest.raises(DataError, match=r"cost\$ has a \$ that names no variable"):
        expand_path("cost$")
