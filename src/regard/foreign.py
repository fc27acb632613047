"""Models of other libraries as model folders of ours, and back.

A Hugging Face folder, or a llama2.c checkpoint, opens as a `ModelFolder`; which of our models it is follows from
`model_type`, which is looked up among the tables of the models here and never leads anywhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core import lookup, weights
from regard.core.config import Config
from regard.core.errors import ConfigError, UnknownName, UsageError
from regard.core.foreign import Foreign
from regard.data.text import Tokenizer, read_llama2c_tokenizer, read_tokenizer
from regard.decoding import Search
from regard.folder import ModelFolder
from regard.interop import hf, llama2c
from regard.models import config_of, make_model

MODELS = "regard.models"
_TOKENS = ("bos", "eos", "pad", "decoder_start")


def supported() -> dict[str, str]:
    """`model_type` → our model's name, by the folder listing."""
    found = {name: getattr(lookup.find(MODELS, name), "foreign", None) for name in lookup.names(MODELS)}
    return {kind: name for name, foreign in found.items() if foreign for kind in foreign.model_types}


def load(folder: Path, config: Mapping[str, Any]) -> ModelFolder:
    """A Hugging Face folder whose config.json has been read."""
    kind, known = str(config["model_type"]), supported()
    if kind not in known:
        raise UnknownName("model_type in config.json", kind, known)
    name = known[kind]
    foreign: Foreign = lookup.find(MODELS, name).foreign
    options, notes = hf.options(foreign, config), hf.code_in(config)
    labels = _add_labels(options, config, lookup.find(MODELS, name).Config)
    if options.get("head") == "none" and (pooling := _pooling(folder)):
        options |= {"head": "sentence", "pooling": pooling}
    ours = config_of(name, options, where=str(folder / "config.json"))
    model = make_model(name, ours, empty=True)
    if unused := hf.load_weights(model, foreign, config, folder):
        notes.append(f"not used by this head: {weights.brief(unused)}")
    generation = {**config, **hf.read_json(folder / "generation_config.json")}
    tokenizers = read_tokenizer(folder, config)
    source, target = tokenizers if isinstance(tokenizers, tuple) else (tokenizers, tokenizers)
    if (own := folder / "target_tokenizer.json").is_file():  # written by `save`, where there are two
        target = Tokenizer.load(own)
    extra: dict[str, Any] = {"tokens": _tokens(generation, source), **labels, **_images(folder, ours)}
    if source is not None and _begins(folder, source):
        extra["begin"] = True
    task = lookup.find(MODELS, name).task_of(ours)
    search = _search(generation)
    stored = ModelFolder(task, name, ours, model.eval(), source, target, search, extra=extra)
    stored.notes = notes
    return stored


def load_llama2c(path: Path) -> ModelFolder:
    """A checkpoint of llama2.c, with the tokenizer that follows it or stands beside it as tokenizer.bin."""
    found = llama2c.read(path)
    config = config_of("llama", found.options, where=str(path))
    model = make_model("llama", config, empty=True)
    weights.load_into(model, found.tensors)
    beside = path.with_name("tokenizer.bin")
    data = found.rest or (beside.read_bytes() if beside.is_file() else b"")
    tokenizer = read_llama2c_tokenizer(data, found.options["vocab_size"]) if data else None
    # The stories were trained one after the other with the beginning mark between them: it is also the end.
    extra = {"tokens": {"bos": 1, "eos": 1, "pad": 1}, "begin": True}
    return ModelFolder(
        "language_model", "llama", config, model.eval(), tokenizer, tokenizer, Search(beam=1), extra=extra
    )


def save(folder: Path, stored: ModelFolder) -> None:
    """Write the model as a Hugging Face folder."""
    foreign: Foreign | None = getattr(lookup.find(MODELS, stored.name), "foreign", None)
    if foreign is None:
        raise UsageError(
            f"a {stored.name} has no counterpart in the other library",
            expected=f"one of {', '.join(sorted(set(supported().values())))}",
            remedy="Convert it to regard's own form: --to regard.",
        )
    tokens = stored.extra.get("tokens", {})
    extra = {f"{name}_token_id": tokens[name] for name in _TOKENS if tokens.get(name) is not None}
    if "eos" in tokens and stored.task == "translation":
        extra["forced_eos_token_id"] = tokens["eos"]
    if labels := stored.extra.get("labels"):
        extra |= {
            "id2label": {str(i): one for i, one in enumerate(labels)},
            "label2id": {one: i for i, one in enumerate(labels)},
        }
    elif "classif" in stored.task and (n_labels := getattr(stored.config, "n_labels", 0)):
        extra |= {"id2label": {str(i): f"LABEL_{i}" for i in range(n_labels)}}
    if stored.extra.get("regression"):
        extra["problem_type"] = "regression"
    hf.save(folder, stored.model, foreign, extra)
    if stored.task in ("translation", "language_model"):
        _write(folder / "generation_config.json", _generation(stored.search, tokens))
    source, target = stored.source_tokenizer, stored.target_tokenizer
    if stored.extra.get("begin") and source is not None and source is target and not source.begins:
        source = target = source.beginning()
    _save_tokenizers(folder, source, target)
    if image := stored.extra.get("image"):
        _write(folder / "preprocessor_config.json", _processor(image))
    if getattr(stored.config, "head", None) == "sentence":
        _write(folder / "modules.json", _SENTENCE_MODULES)
        (folder / "1_Pooling").mkdir(exist_ok=True)
        said = stored.config.model_dump()
        name = next(theirs for theirs, ours in _POOLINGS.items() if ours == said["pooling"])
        flags = {flag: one == name for flag, one in _POOLING_FLAGS.items()}
        _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": said["d_model"], **flags})


_SENTENCE_MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


def _save_tokenizers(folder: Path, source: Tokenizer | None, target: Tokenizer | None) -> None:
    if source is not None and target is not None and source is not target:
        # The other library keeps two vocabularies as sentencepiece files, which cannot be made from these.
        source.save(folder / "tokenizer.json")
        target.save(folder / "target_tokenizer.json")
    elif source is not None:
        source.save(folder / "tokenizer.json")
        _write(folder / "tokenizer_config.json", source.described())


def _add_labels(options: dict[str, Any], config: Mapping[str, Any], kind: type[Config]) -> dict[str, Any]:
    """The number of classes into the options, their names out."""
    classifies = options["head"] in ("classes", "token_classes") if "head" in options else "n_labels" not in options
    if "n_labels" not in kind.model_fields or not classifies:
        return {}
    labels = hf.labels(config)
    options["n_labels"] = len(labels)
    regression = config.get("problem_type") == "regression" or len(labels) == 1
    return {"labels": labels, **({"regression": True} if regression else {})}


_POOLINGS = {"mean": "mean", "cls": "first", "max": "max"}
_POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def _pooling(folder: Path) -> str | None:
    """How a folder of sentence-transformers makes one vector of a text; None where it is no such folder."""
    place = folder / "1_Pooling" / "config.json"
    if not (said := hf.read_json(place)):
        return None
    named = said.get("pooling_mode")
    asked = [named] if named else [name for flag, name in _POOLING_FLAGS.items() if said.get(flag)] or ["mean"]
    dense = [one.get("type") for one in _listed(folder / "modules.json") if str(one.get("type")).endswith("Dense")]
    if len(asked) != 1 or asked[0] not in _POOLINGS or dense:
        raise ConfigError(
            f"{place.parent.parent} makes sentence vectors in a way that is not supported",
            got=", ".join(map(str, [*asked, *dense])),
            expected=f"one of {', '.join(_POOLINGS)}, and no layer after it",
        )
    return _POOLINGS[asked[0]]


def _listed(path: Path) -> list[Mapping[str, Any]]:
    """A JSON file that holds a list of mappings; nothing where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read", got=error) from error
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _tokens(config: Mapping[str, Any], tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Ids of marks by the configuration, by the tokenizer where that says nothing; of ends there may be a list."""
    found: dict[str, Any] = {}
    for name in _TOKENS:
        value = config.get(f"{name}_token_id")
        if value is None and tokenizer is not None:
            value = getattr(tokenizer.specials, name, None)
        several = value if isinstance(value, list) else [value]
        if several and all(isinstance(one, int) for one in several):
            found[name] = several if name == "eos" and len(several) > 1 else several[0]
    return found


def _begins(folder: Path, tokenizer: Tokenizer) -> bool:
    """Whether texts begin with a mark: as tokenizer_config.json says, else tokenizer.json; Llama's first form did."""
    said = hf.read_json(folder / "tokenizer_config.json").get("add_bos_token")
    if said is not None:
        return bool(said) and tokenizer.specials.bos is not None
    alone = (folder / "tokenizer.model").is_file() and not (folder / "tokenizer.json").is_file()
    return tokenizer.begins or (alone and tokenizer.specials.bos is not None)


def _search(config: Mapping[str, Any]) -> Search:
    """How the folder says that it writes; its length penalty divides by a power of the length."""
    names = {"num_beams": "beam", "length_penalty": "length_penalty", "do_sample": "sample"}
    if config.get("do_sample"):
        names |= {name: name for name in ("temperature", "top_k", "top_p", "min_p")}
    given = {ours: config[theirs] for theirs, ours in names.items() if config.get(theirs) is not None}
    return Search.parse({"beam": 1, "length_form": "mean", **given}, "generation_config.json")


def _generation(search: Search, tokens: Mapping[str, Any]) -> dict[str, Any]:
    """The same for them. Another form of the length penalty cannot be said there, and is left out."""
    theirs: dict[str, Any] = {f"{name}_token_id": tokens[name] for name in _TOKENS if tokens.get(name) is not None}
    theirs |= {"num_beams": search.beam, "do_sample": search.sample}
    if search.length_form == "mean":
        theirs["length_penalty"] = search.length_penalty
    if search.sample:
        theirs |= {"temperature": search.temperature, "top_k": search.top_k, "top_p": search.top_p}
    return theirs


def _images(folder: Path, config: Config) -> dict[str, Any]:
    """How images are prepared, by preprocessor_config.json, or as published models of this kind are fed."""
    channels = getattr(config, "channels", None)
    if channels is None:
        return {}
    settings = hf.read_json(folder / "preprocessor_config.json")
    size = settings.get("size", config.model_dump()["image_size"])
    size = size if isinstance(size, int) else size.get("height", size.get("shortest_edge"))
    normal = settings.get("do_normalize", True)
    mean, std = ([settings.get(f"image_{name}") or [0.5] * channels for name in ("mean", "std")]
                 if normal else ([0.0] * channels, [1.0] * channels))  # fmt: skip
    return {"image": {"size": int(size), "channels": channels, "mean": list(mean), "std": list(std)}}


def _processor(image: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "image_processor_type": "ViTImageProcessor",
        "size": {"height": image["size"], "width": image["size"]},
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "image_mean": image["mean"],
        "image_std": image["std"],
    }


def _write(path: Path, data: Any) -> None:
    with weights.replacing(path) as file:
        file.write((json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode())
