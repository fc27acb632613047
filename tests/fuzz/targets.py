"""What is fuzzed: for each kind of file a sound one, how it is spoiled, and what is done with it.

A target is a function of a folder and a generator. It writes a spoiled file and uses it; it may raise `RegardError`,
and nothing else.
"""

import contextlib
import gzip
import io
import json
import lzma
import struct
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from tests.fuzz.mutations import changed, spoiled_bytes, spoiled_json
from tests.system.small_models import IMAGE, LINES, SIZES, fit_on_lines, hf, stored

import regard
import regard.api
from regard.core.errors import RegardError
from regard.core.lines import read_lines
from regard.data.images import open_image, prepared
from regard.data.text import Tokenizer, make_tokenizer, read_tokenizer
from regard.pipelines import make_pipeline
from regard.runs.parsing import read_recipe
from regard.views.terminal import panels_for_terminal

FORMS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
RECIPES = Path(__file__).parents[2] / "recipes"


class Sound:
    """Sound files of every kind, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        char, bert = make_tokenizer("char", LINES), make_tokenizer("wordpiece", LINES * 3, vocab_size=80, marks="bert")
        shape = {**SIZES, "d_ff": 40}
        options = {**shape, "vocab_size": bert.vocab_size, "max_len": 48, "head": "classes", "n_labels": 3}
        sides = {"source_vocab": char.vocab_size, "target_vocab": char.vocab_size}
        marian = {"halves": True, "output_bias": True, "order": "post", "n_encoder_layers": 1, "n_decoder_layers": 1}
        image = {"image": IMAGE, "labels": ["a", "b", "c"]}
        words = {"vocab_size": char.vocab_size, "max_len": 40}
        made = {
            "bert": stored("bert", "classification", options, {"labels": ["a", "b", "c"]}, bert),
            "gpt2": stored("gpt2", "language_model", {**SIZES, **words}, {}, char),
            "llama": stored("llama", "language_model", {**shape, **words, "n_heads": 2}, {}, char),
            "vit": stored(
                "vit", "image_classification", {**shape, "image_size": 8, "patch_size": 4, "n_labels": 3}, image
            ),
            "marian": stored(
                "transformer", "translation", {**sides, "d_model": 8, "n_heads": 2, "d_ff": 8, **marian}, {}, char
            ),
        }
        spaced = make_tokenizer("space", LINES)
        counted = stored("ngram", "language_model", {"vocab_size": spaced.vocab_size, "order": 3}, {}, spaced)
        fit_on_lines(counted.model, spaced, LINES)
        regard.api.convert(make_pipeline(counted), folder / "sound.arpa", to="arpa")
        self.arpa = (folder / "sound.arpa").read_bytes()
        self.models = {name: make_pipeline(model) for name, model in made.items()}
        for name, model in self.models.items():
            model.save(folder / "ours" / name)
            hf(model, folder / "theirs" / name)
        trace = regard.trace(self.models["bert"], "the cat sat", value_path=True)
        trace.save(folder / "sound.trace")
        self.trace = (folder / "sound.trace").read_bytes()
        self.picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 7, 3), dtype=np.uint8))
        self.picture.save(folder / "picture.png")
        self.tokenizers = {
            kind: self._tokenizer(kind, folder) for kind in ("bpe", "word", "char", "wordpiece")
        }  # fmt: skip
        self.recipes = [yaml.safe_load(path.read_text()) for path in sorted(RECIPES.glob("*.yaml"))]

    def _tokenizer(self, kind: str, folder: Path) -> dict[str, Any]:
        make_tokenizer(kind, LINES * 3, vocab_size=80).save(folder / f"{kind}.json")
        return json.loads((folder / f"{kind}.json").read_text())

    def copied(self, kind: str, name: str, place: Path) -> Path:
        """Links to the files of a folder, any of which may be replaced."""
        place.mkdir()
        for path in (self.folder / kind / name).iterdir():
            if path.name != "manifest.json":
                (place / path.name).write_bytes(path.read_bytes())
        return place


def used(path: Path, sound: Sound) -> None:
    """Open a model and use it a little."""
    model = regard.load(path)
    task = model.stored.task
    if task == "image_classification":
        model.classify([sound.picture])
    elif task == "language_model":
        model.generate(["the"], max_tokens=2)
    elif task == "translation":
        model.translate(["the cat"], max_length=4)
    elif task == "classification":
        model.classify(["the cat", "a dog"])


def config(sound: Sound, place: Path, draw: Random) -> None:
    name = draw.choice(sorted(path.name for path in (sound.folder / "theirs").iterdir()))
    folder = sound.copied("theirs", name, place / "m")
    files = list(folder.glob("*config.json"))
    path = draw.choice([folder / "config.json", folder / "config.json", *sorted(files)])
    path.write_bytes(spoiled_json(json.loads(path.read_text()), draw))
    used(folder, sound)


def own_config(sound: Sound, place: Path, draw: Random) -> None:
    folder = sound.copied("ours", draw.choice(sorted(sound.models)), place / "m")
    path = folder / draw.choice(("config.json", "config.json", "generation_config.json"))
    path.write_bytes(spoiled_json(json.loads(path.read_text()), draw))
    from regard.core.manifest import write_manifest

    write_manifest(folder, [path.name for path in folder.iterdir()])
    used(folder, sound)


def tokenizer(sound: Sound, place: Path, draw: Random) -> None:
    data = sound.tokenizers[draw.choice(sorted(sound.tokenizers))]
    (place / "tokenizer.json").write_bytes(spoiled_json(data, draw))
    with contextlib.suppress(RegardError):
        read = read_tokenizer(place, {})
        assert isinstance(read, Tokenizer)
        read.decode(read.encode_batch(["the cat ☃ sat"])[0])
    read = Tokenizer.load(place / "tokenizer.json")
    ids = read.encode_batch(["the cat ☃ sat", ""])[0]
    read.decode(ids)
    read.tokens(ids)


def header(sound: Sound, place: Path, draw: Random) -> None:
    folder = sound.copied("ours", draw.choice(("gpt2", "bert", "vit")), place / "m")
    path = folder / "model.safetensors"
    (folder / "manifest.json").unlink(missing_ok=True)
    path.write_bytes(_spoiled_tensors(path.read_bytes(), draw))
    if draw.random() < 0.5:
        (folder / "config.json").write_bytes((sound.folder / "theirs" / "gpt2" / "config.json").read_bytes())
    used(folder, sound)


def _spoiled_tensors(data: bytes, draw: Random) -> bytes:
    """A safetensors file with another header, or other bytes."""
    if draw.random() < 0.4:
        return spoiled_bytes(data, draw)
    size = int.from_bytes(data[:8], "little")
    text = spoiled_json(json.loads(data[8 : 8 + size]), draw)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def preprocessor(sound: Sound, place: Path, draw: Random) -> None:
    folder = sound.copied("theirs", "vit", place / "m")
    path = folder / "preprocessor_config.json"
    sound_settings = {
        **json.loads(path.read_text()), "do_center_crop": True, "crop_size": {"height": 8, "width": 8}, "resample": 3,
    }  # fmt: skip
    path.write_bytes(spoiled_json(sound_settings, draw))
    used(folder, sound)


def recipe(sound: Sound, place: Path, draw: Random) -> None:
    data = draw.choice(sound.recipes)
    text = yaml.safe_dump(data).encode()
    if draw.random() < 0.6:
        with contextlib.suppress(yaml.YAMLError, ValueError):
            text = yaml.safe_dump(changed(yaml.safe_load(text), draw)).encode("utf-8", "surrogatepass")
    else:
        text = spoiled_bytes(text, draw)
    (place / "recipe.yaml").write_bytes(text)
    read_recipe(place / "recipe.yaml")


def trace(sound: Sound, place: Path, draw: Random) -> None:
    data = sound.trace
    if draw.random() < 0.6:
        size = int.from_bytes(data[:8], "little")
        head = json.loads(data[8 : 8 + size])
        words = json.loads(head["__metadata__"]["regard.trace"])
        if draw.random() < 0.7:
            head["__metadata__"]["regard.trace"] = spoiled_json(words, draw).decode("utf-8", "replace")
        else:
            _reshaped(head, draw)
        text = json.dumps(head).encode()
        data = len(text).to_bytes(8, "little") + text + data[8 + size :]
    else:
        data = _spoiled_tensors(data, draw)
    (place / "a.trace").write_bytes(data)
    loaded = regard.api.load_trace(place / "a.trace")
    for method in ("maps", "rollout"):
        panels_for_terminal(regard.api.explain(loaded, method=method), 80)


def _reshaped(head: dict[str, Any], draw: Random) -> None:
    """Tensors of another rank that hold as many numbers."""
    name = draw.choice([name for name in head if name != "__metadata__"])
    shape = head[name]["shape"]
    flat = int(np.prod(shape))
    head[name]["shape"] = draw.choice([[flat], [1, flat], [*shape, 1], [1, 1, 1, 1, flat], shape[::-1]])


def llama2c(sound: Sound, place: Path, draw: Random) -> None:
    dim, hidden, layers, heads, vocab, length = 8, 12, 2, 2, 12, 10
    sizes = [dim, hidden, layers, heads, heads, vocab, length]
    count = vocab * dim + layers * (2 * dim + 4 * dim * dim + 3 * dim * hidden) + dim + 2 * length * (dim // heads) // 2
    numbers = np.random.default_rng(1).standard_normal(count).astype("<f4").tobytes()
    if draw.random() < 0.7:
        sizes[draw.randrange(7)] = draw.choice((0, -1, 1, 2, 3, 4, 5, 8, 16, 10**6, 2**31 - 1, -(2**31), -12))
    data = struct.pack("<7i", *sizes) + numbers
    path = place / "model.bin"
    path.write_bytes(data if draw.random() < 0.5 else spoiled_bytes(data, draw))
    pieces = b"".join(struct.pack("<fi", -1.0, 1) + bytes([97 + i]) for i in range(vocab))
    (place / "tokenizer.bin").write_bytes(spoiled_bytes(struct.pack("<i", 4) + pieces, draw))
    model = regard.load(path)
    model(torch.tensor([[1, 2]]))


def image(sound: Sound, place: Path, draw: Random) -> None:
    file = io.BytesIO()
    picture = sound.picture.convert(draw.choice(("RGB", "L", "1")) if draw.random() < 0.5 else "RGB")
    exif = Image.Exif()
    exif[0x0112] = draw.randrange(1, 9)
    form = draw.choice(FORMS)
    picture.save(file, form, **({"exif": exif} if form in ("PNG", "JPEG", "WEBP", "TIFF") else {}))
    (place / "a.png").write_bytes(spoiled_bytes(file.getvalue(), draw))
    prepared(open_image(place / "a.png"), 8, draw.choice((1, 3)))


def packed_text(sound: Sound, place: Path, draw: Random) -> None:
    text = "\n".join(LINES * 5).encode() + draw.randbytes(30)
    suffix = draw.choice((".gz", ".xz", ".txt"))
    packed = {".gz": gzip.compress, ".xz": lzma.compress, ".txt": bytes}[suffix](text)
    (place / f"a{suffix}").write_bytes(spoiled_bytes(packed, draw))
    sum(map(len, read_lines(place / f"a{suffix}")))


def arpa(sound: Sound, place: Path, draw: Random) -> None:
    spoiled = spoiled_bytes(sound.arpa, draw)
    (place / "a.arpa").write_bytes(spoiled)
    regard.load(place / "a.arpa")(torch.tensor([[1, 2]])).logits  # noqa: B018


TARGETS = {
    "config.json": config,
    "our config.json": own_config,
    "tokenizer.json": tokenizer,
    "safetensors": header,
    "preprocessor_config.json": preprocessor,
    "recipe": recipe,
    "trace": trace,
    "llama2.c": llama2c,
    "image": image,
    "packed text": packed_text,
    "ARPA": arpa,
}
