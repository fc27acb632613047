"""How fast a model generates here: tokens per second of every engine, beside what the machine can do at most.

Every run does the same work: random inputs of a fixed length, outputs of a fixed length without an end token. A source
has 16 tokens; a prompt has one, since reading a long prompt is another kind of work than generating. Engines take
turns within a round, so that whatever else the machine does affects all of them; the median of the rounds counts. The
limits (`runtime.limits`) are measured before and after, and the better ones count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from regard.core.articles import with_article
from regard.core.contracts import Decodable
from regard.core.errors import LengthError, UsageError
from regard.core.search import Search
from regard.core.state import State
from regard.decoding import decode
from regard.pipelines import Loaded
from regard.pipelines.language_model import LanguageModelPipeline
from regard.pipelines.translation import TranslationPipeline
from regard.runtime import ENGINES, Choice, choose
from regard.runtime.limits import Limits, Rate, cpu, measure_limits

NAMES = tuple(engine for engine in ENGINES if engine != "auto")
_SOURCE, _TOKENS = 16, 32
_GREEDY, _BEAM = (1, 8, 32), (1, 8)
_WARM = 4  # tokens of the run that is not counted
_NOT_READ = ("embedding", "__getitem__", "index_select")  # these take a few rows of a weight, not all of it


@dataclass(frozen=True)
class Work:
    """Inputs at once, and hypotheses for each (1: greedy search)."""

    batch: int
    beam: int

    def __str__(self) -> str:
        inputs = "1 input" if self.batch == 1 else f"{self.batch} inputs"
        return f"{inputs}, {'greedy' if self.beam == 1 else f'beam {self.beam}'}"


@dataclass(frozen=True)
class Speed:
    """Tokens per second of an engine: the median, slowest and fastest round, and the limit on this machine."""

    work: Work
    engine: str
    median: float
    low: float
    high: float
    limit: float | None

    @property
    def share(self) -> float | None:
        """The part of the limit that was reached."""
        return self.median / self.limit if self.limit else None


@dataclass(frozen=True)
class Speeds:
    """Everything that was measured."""

    model: str
    cpu: str
    threads: int
    torch: str
    n_input: int
    n_tokens: int
    rounds: int
    auto: Choice
    missing: dict[str, str]
    """Engines that cannot run, and why."""
    limits: Limits
    step_bytes: dict[str, int]
    """By engine: bytes of the weights that a step reads."""
    speeds: list[Speed]

    def as_dict(self) -> dict[str, Any]:
        """As JSON data."""
        plain = ("model", "cpu", "threads", "torch", "n_input", "n_tokens", "rounds", "step_bytes")
        rates = {
            "read": "read_gb_s",
            "float32": "float32_gflop_s",
            "bfloat16": "bfloat16_gflop_s",
            "int8": "int8_gop_s",
        }
        limits: dict[str, Any] = {}
        for name, unit in rates.items():
            rate: Rate | None = getattr(self.limits, name)
            limits |= {unit: rate and rate.giga, f"{name}_by": rate and rate.by}
        return {
            **{name: getattr(self, name) for name in plain},
            "auto": {"engine": self.auto.engine, "reason": self.auto.reason},
            "engines": {name: {"runs": name not in self.missing, "reason": self.missing.get(name)} for name in NAMES},
            "limits": limits,
            "speeds": [
                {**asdict(speed.work), "engine": speed.engine, "tokens_per_s": speed.median, "low": speed.low,
                 "high": speed.high, "limit": speed.limit, "share": speed.share}
                for speed in self.speeds
            ],
        }  # fmt: skip


class SpeedTest:
    """Measures a loaded model. `tokens` are generated for each input, by default 32, or as many as the model can."""

    def __init__(
        self, model: Loaded, *, tokens: int | None = None, rounds: int = 3, threads: int | None = None
    ) -> None:
        if not isinstance(model, (TranslationPipeline, LanguageModelPipeline)):
            raise UsageError(
                "bench needs a model that generates text",
                got=f"{with_article(model.stored.name)} for {model.stored.task.replace('_', ' ')}",
                expected="a translation model or a language model",
            )
        for name, number in (("tokens", tokens), ("rounds", rounds), ("threads", threads)):
            if number is not None and number < 1:
                raise UsageError(f"{name} must be at least 1", got=number)
        self.model, self.rounds, self.threads = model, rounds, threads
        self._translates = isinstance(model, TranslationPipeline)
        self.n_input, self.n_tokens = self._lengths(tokens)
        self.works = [Work(batch, 1) for batch in _GREEDY] + [Work(batch, 5) for batch in _BEAM if self._translates]

    @property
    def n_runs(self) -> int:
        """The largest possible number of runs."""
        return len(self.works) * len(NAMES) * self.rounds

    def measure(self, on_progress: Callable[[int, int], None] | None = None) -> Speeds:
        """Measure; `on_progress` gets the numbers of runs and tokens done since its last call."""
        with _threads(self.threads):
            auto = choose(self.model.model)
            choices = {name: auto if name == auto.engine else choose(self.model.model, name) for name in NAMES}
            runnable = {name: choice.model for name, choice in choices.items() if choice.engine == name}
            missing = {name: choices[name].reason or "another one runs" for name in NAMES if name not in runnable}
            limits = measure_limits()
            seconds = {work: self._alternate(work, runnable, on_progress) for work in self.works}
            limits = limits.best(measure_limits())
            weights = self._step_weights()
            return Speeds(
                model=f"{self.model.stored.name}, {sum(p.numel() for p in self.model.model.parameters()):,} parameters",
                cpu=cpu(),
                threads=torch.get_num_threads(),
                torch=torch.__version__,
                n_input=self.n_input,
                n_tokens=self.n_tokens,
                rounds=self.rounds,
                auto=auto,
                missing=missing,
                limits=limits,
                step_bytes={name: step_bytes(weights, name) for name in NAMES},
                speeds=[
                    self._speed(work, name, found, limits, weights)
                    for work, engines in seconds.items()
                    for name, found in engines.items()
                ],
            )

    def _lengths(self, tokens: int | None) -> tuple[int, int]:
        """How many tokens go in and out, within the model's positions."""
        longest, n_input = self.model.model.longest, _SOURCE if self._translates else 1
        if longest is None:
            return n_input, tokens or _TOKENS
        room = longest - 1  # the first token takes a position too
        if tokens is not None and tokens > room:
            raise LengthError("the model has too few positions", got=f"{tokens} tokens", expected=f"at most {room}")
        return min(n_input, longest), tokens or max(1, min(_TOKENS, room))

    def _alternate(
        self, work: Work, models: Mapping[str, Decodable], on_progress: Callable[[int, int], None] | None
    ) -> dict[str, list[float]]:
        """Seconds of each engine, taken in turns."""
        seconds: dict[str, list[float]] = {name: [] for name in models}
        for model in models.values():
            self._generate(model, work, min(_WARM, self.n_tokens))
        for _ in range(self.rounds):
            for name, model in models.items():
                start = time.perf_counter()
                self._generate(model, work, self.n_tokens)
                seconds[name].append(time.perf_counter() - start)
                if on_progress is not None:
                    on_progress(1, work.batch * self.n_tokens)
        return seconds

    def _generate(self, model: Decodable, work: Work, n_tokens: int) -> None:
        dice = torch.Generator().manual_seed(work.batch)
        search = Search(beam=work.beam, max_length=n_tokens, length_penalty=0.0)
        if isinstance(self.model, TranslationPipeline):
            source = torch.randint(self.model.config.source_vocab, (work.batch, self.n_input), generator=dice)
            mask = torch.ones_like(source, dtype=torch.bool)
            inputs = {"source": source, "source_mask": mask}
            results = decode(
                model, inputs, search, bos=max(0, self.model.first_token), eos=-1, pad=-1, lengths=mask.sum(1)
            )
        else:
            firsts = torch.randint(model.vocab_size, (work.batch,), generator=dice).tolist()
            results = decode(model, {}, search, bos=firsts, eos=-1, pad=-1, rows=range(work.batch))
        assert all(len(row[0].tokens) == n_tokens for row in results)

    def _step_weights(self) -> list[Tensor]:
        watched = _Watched(self.model.model)
        self._generate(watched, Work(1, 1), 2 if self.n_tokens > 1 else 1)
        return list(watched.weights.values())

    def _speed(self, work: Work, engine: str, seconds: list[float], limits: Limits, weights: list[Tensor]) -> Speed:
        rates = sorted(work.batch * self.n_tokens / value for value in seconds)
        limit = limit_of(work, engine, limits, weights)
        return Speed(work, engine, statistics.median(rates), rates[0], rates[-1], limit)


def step_bytes(weights: list[Tensor], engine: str) -> int:
    """Bytes of weights that an engine reads in a step; vectors (biases, norms) stay as they are."""
    size = {"bfloat16": 2, "int8": 1}.get(engine)
    return sum(weight.nbytes if size is None or weight.dim() < 2 else size * weight.numel() for weight in weights)


def limit_of(work: Work, engine: str, limits: Limits, weights: list[Tensor]) -> float | None:
    """The tokens per second that reading the weights and multiplying them allow; None if a rate is not known."""
    product = {"bfloat16": limits.bfloat16, "int8": limits.int8}.get(engine, limits.float32)
    if product is None or not weights:
        return None
    reading = step_bytes(weights, engine) / (limits.read.giga * 1e9)
    multiplied = sum(weight.numel() for weight in weights if weight.dim() > 1)
    multiplying = 2 * multiplied * work.batch * work.beam / (product.giga * 1e9)
    return work.batch / max(reading, multiplying)


class _Watched:
    """Wraps a model, and records the weights that its steps use."""

    def __init__(self, model: Decodable) -> None:
        self.model = model
        self.coverage_site, self.longest = model.coverage_site, model.longest
        self.weights: dict[int, Tensor] = {}

    @property
    def vocab_size(self) -> int:
        return self.model.vocab_size

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        return self.model.new_state(sources=sources, paths=paths, capacity=capacity)

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        self.model.read(inputs, state, sources_R)

    def step(self, tokens_NT: Tensor, counts_N: Tensor, paths_N: Tensor, state: State) -> Tensor:
        with _Used(self.weights):
            return self.model.step(tokens_NT, counts_N, paths_N, state)


class _Used(TorchFunctionMode):
    """Collects the parameters that torch's functions compute with."""

    def __init__(self, weights: dict[int, Tensor]) -> None:
        super().__init__()
        self._weights = weights

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name not in _NOT_READ and any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):
            for leaf in tree_leaves((args, kwargs)):
                if isinstance(leaf, torch.nn.Parameter):
                    self._weights[id(leaf)] = leaf
        return result


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
