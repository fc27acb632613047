"""A configuration is right as a whole, or one line says everything that is wrong with it."""

from __future__ import annotations

import copy
import enum
import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError, model_validator

from regard.core.config import Config, dump, override, read_config
from regard.core.errors import ConfigError


class Kind(enum.Enum):
    WARM = "warm"
    COLD = "cold"


class Training(Config):
    lr: float = 1e-3
    steps: int = 100
    betas: tuple[float, float] = (0.9, 0.98)
    kind: Kind = Kind.WARM
    out: Path | None = None
    shuffle: bool = True

    @model_validator(mode="after")
    def _has_steps(self) -> Training:
        if self.steps < 1:
            raise ValueError("steps must be at least 1")
        return self


class Adam(Config):
    name: Literal["adam"] = "adam"
    epsilon: float = 1e-8


class Sgd(Config):
    name: Literal["sgd"] = "sgd"
    momentum: float = 0.0


class Recipe(Config):
    title: str
    training: Training = Training()
    optimizer: Annotated[Adam | Sgd, Field(discriminator="name")] = Adam()
    stages: tuple[Training, ...] = ()
    extra: Config = Config()


def fault(data: Any, where: str = "config") -> str:
    with pytest.raises(ConfigError) as caught:
        Recipe.parse(data, where)
    return str(caught.value)


def file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_plain_data_becomes_typed_values() -> None:
    data = {"lr": 1, "betas": [0.5, 1], "kind": "cold", "out": "runs/a"}
    training = Recipe.parse({"title": "x", "training": data}).training
    assert training == Training(lr=1.0, betas=(0.5, 1.0), kind=Kind.COLD, out=Path("runs/a"))
    assert isinstance(training.lr, float)


def test_configurations_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Training().lr = 2.0


def test_defaults_are_checked_too() -> None:
    class Wrong(Config):
        steps: int = "three"  # type: ignore[assignment]

    with pytest.raises(ConfigError, match="steps should be a valid integer"):
        Wrong.parse({})


@pytest.mark.parametrize(
    ("key", "value"),
    [("lr", "1e-3"), ("steps", "3"), ("steps", 3.0), ("steps", True), ("lr", True), ("shuffle", 1), ("kind", "hot")],
)
def test_values_of_another_type_are_refused(key: str, value: object) -> None:
    assert f"training.{key} should be" in fault({"title": "x", "training": {key: value}})


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_are_finite(value: float) -> None:
    assert "training.lr should be a finite number" in fault({"title": "x", "training": {"lr": value}})


def test_all_problems_are_told_together_in_one_line() -> None:
    text = fault({"training": {"lrr": 1, "steps": "3"}, "stages": [{}, {"betas": [1]}], "titel": "x"}, "a.yaml")
    assert text.startswith("a.yaml: ")
    assert "training.lrr is unknown: did you mean 'lr'?" in text
    assert "training.steps should be a valid integer, got '3'" in text
    assert "titel is unknown: did you mean 'title'?" in text
    assert "title is missing" in text
    assert "stages.1.betas.1 is missing" in text
    assert "\n" not in text


def test_an_unknown_key_without_a_near_match_lists_the_known_ones() -> None:
    text = fault({"title": "x", "stages": [{"zzz": 1}]})
    assert "stages.0.zzz is unknown: known are betas, kind, lr, out, shuffle, steps" in text


def test_the_members_of_a_union_are_not_part_of_the_path() -> None:
    text = fault({"title": "x", "optimizer": {"name": "sgd", "epsilon": 1, "momentun": 2}})
    assert "optimizer.momentun is unknown: did you mean 'momentum'?" in text
    assert "optimizer.epsilon is unknown: known are momentum, name" in text


def test_a_validator_of_a_configuration_says_where() -> None:
    assert fault({"title": "x", "training": {"steps": 0}}) == "config: training: steps must be at least 1"
    with pytest.raises(ConfigError, match=r"^config: steps must be at least 1$"):
        Training.parse({"steps": 0})


@pytest.mark.parametrize("data", [[1], "x", None])
def test_what_is_no_mapping_is_no_configuration(data: object) -> None:
    assert "config: should be an object" in fault(data)


def test_values_that_are_no_plain_data_are_refused() -> None:
    assert "not plain data" in fault({"title": object()})
    circle: list[object] = []
    circle.append(circle)
    assert "not plain data" in fault({"title": circle})


def test_a_dump_is_json_with_sorted_keys_that_parses_to_an_equal_configuration() -> None:
    recipe = Recipe(title="Zoë", training=Training(lr=1e-4, out=Path("a")), optimizer=Sgd(), stages=(Training(),))
    text = dump(recipe)
    assert text.endswith("}\n")
    assert "Zoë" in text
    assert list(json.loads(text)) == sorted(Recipe.model_fields)
    assert Recipe.parse(json.loads(text)) == recipe


def test_a_dump_keeps_what_a_subclass_adds() -> None:
    assert json.loads(dump(Recipe(title="x", extra=Sgd(momentum=0.5))))["extra"] == {"name": "sgd", "momentum": 0.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("+.5e3", 500.0),
        ("-2e+3", -2000.0),
        ("1.", 1.0),
        ("0.1", 0.1),
        (".inf", math.inf),
        ("17", 17),
        ("-017", -17),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0o17", 15),
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1e", "1e"),
        ("1_", "1_"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("'3'", "3"),
    ],
)
def test_yaml_scalars_are_those_of_yaml_1_2(tmp_path: Path, text: str, value: object) -> None:
    parsed = read_config(file(tmp_path, "a.yaml", f"key: {text}\n"))["key"]
    assert parsed == value
    assert type(parsed) is type(value)


def test_yaml_and_json_files_are_read_alike(tmp_path: Path) -> None:
    data = {"title": "Zoë 🦊", "training": {"lr": 1e-4, "betas": [0.9, 1]}, "none": None}
    text = json.dumps(data)
    assert read_config(file(tmp_path, "a.json", text)) == data
    assert read_config(file(tmp_path, "b.json", b"\xef\xbb\xbf" + text.encode())) == data
    assert read_config(file(tmp_path, "a.yml", "title: Zoë 🦊\ntraining: {lr: 1e-4, betas: [0.9, 1]}\nnone:\n")) == data


def test_yaml_anchors_and_merges_work(tmp_path: Path) -> None:
    text = "base: &b {lr: 1, steps: 2}\nmid: &m {<<: *b, lr: 3}\ntop: {<<: *m, steps: 4}\n"
    assert read_config(file(tmp_path, "a.yaml", text))["top"] == {"lr": 3, "steps": 4}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.yaml", "a: 1\nb: 2\na: 3\n", "a.yaml is not valid YAML in line 3: got duplicate key 'a'"),
        ("a.yaml", "x:\n  a: 1\n  'a': 3\n", "line 3: got duplicate key 'a'"),
        ("a.json", '{"a": 1, "a": 2}', "a.json is not valid JSON: got duplicate key 'a'"),
        ("a.yaml", "a: 1\nb: [1,\nc: 2\n", "a.yaml is not valid YAML in line"),
        ("a.yaml", "a: 1\nb: !!python/object/apply:os.getcwd []\n", "in line 2: .*constructor.*python/object"),
        ("a.yaml", "a: !!timestamp 2024-01-01\n", "in line 1"),
        ("a.yaml", "a: !!int three\n", "not valid YAML: got .*three"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "not valid YAML in line 2"),
        ("a.yaml", "a: \x07\n", "not valid YAML"),
        ("a.yaml", "[1]: 2\n", "not valid YAML in line 1: .*unhashable"),
        ("a.json", '{"a": 1,\n "b": }', "a.json is not valid JSON in line 2"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.yaml", "[" * 5_000, "nested too deeply"),
        ("a.yaml", "- 1\n- 2\n", "a.yaml is not a mapping: got list"),
        ("a.json", "3", "a.json is not a mapping: got int"),
        ("a.yaml", "", "a.yaml is not a mapping: got nothing"),
        ("a.yaml", b"a: \xff\n", "a.yaml is not UTF-8 text.*0xff"),
        ("a.toml", "a = 1", "'.toml', expected .yaml, .yml or .json"),
    ],
)
def test_a_bad_file_is_told_in_one_line(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read_config(file(tmp_path, name, content))
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.yaml cannot be read: got No such file"):
        read_config(tmp_path / "none.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(ConfigError, match=r"folder.yaml cannot be read"):
        read_config(str(tmp_path / "folder.yaml"))


def test_overrides_change_a_deep_copy() -> None:
    data = {"training": {"lr": 1, "list": [1]}, "keep": {"a": [1]}}
    before = copy.deepcopy(data)
    changed = override(data, {"training.lr": "1e-4", "training.list": "[de, 2]", "new.deep.key": "no", "keep.b": ""})
    training, keep = {"lr": 1e-4, "list": ["de", 2]}, {"a": [1], "b": None}
    assert changed == {"training": training, "keep": keep, "new": {"deep": {"key": "no"}}}
    changed["keep"]["a"].append(2)
    assert data == before


def test_an_override_changes_one_place_even_if_yaml_shares_it(tmp_path: Path) -> None:
    data = read_config(file(tmp_path, "a.yaml", "encoder: &e {size: 1}\ndecoder: *e\n"))
    assert override(data, {"encoder.size": "2"}) == {"encoder": {"size": 2}, "decoder": {"size": 1}}


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("lr.value", "1", "cannot override lr.value: got 3 at lr, expected a mapping"),
        ("stages.0.lr", "1", r"cannot override stages.0.lr: got \[1\] at stages"),
        ("a..b", "1", "dotted path.*'a..b'"),
        ("", "1", "dotted path"),
        ("a", "[1", "override a is not valid YAML in line 1"),
    ],
)
def test_an_override_that_cannot_be_is_refused(path: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override({"lr": 3, "stages": [1]}, {path: text})


FINITE = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text("abc", min_size=1, max_size=2)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(st.characters(max_codepoint=0xFFFF)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(WORDS, TREES, max_size=3), st.lists(WORDS, min_size=1, max_size=3), TREES)
def test_an_override_puts_its_value_at_its_path_and_nothing_else(data: Any, keys: list[str], value: Any) -> None:
    before, expected = copy.deepcopy(data), copy.deepcopy(data)
    inner = expected
    for key in keys[:-1]:
        inner[key] = {} if inner.get(key) is None else inner[key]
        inner = inner[key]
        if not isinstance(inner, dict):
            with pytest.raises(ConfigError, match="cannot override"):
                override(data, {".".join(keys): "1"})
            return
    inner[keys[-1]] = value
    assert override(data, {".".join(keys): json.dumps(value)}) == expected
    assert data == before


@given(FINITE | st.integers())
def test_every_number_survives_an_override(number: float) -> None:
    parsed = override({}, {"a": repr(number)})["a"]
    assert parsed == number
    assert type(parsed) is type(number)
