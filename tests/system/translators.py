"""A translator's folder, opened by transformers and by CTranslate2 as their users do: from text to text.

Where the three searches differ, and what makes them the same:

ended     `max_length` cuts off what has not ended. Ours returns such a path only if none ended; theirs rank it with the
          others. `differences` names these apart.
stopping  Ours stops when nothing better can come. Transformers does so with early_stopping="never"; CTranslate2 stops
          when `patience` × beam paths have ended, so that it gets much patience where a length penalty lets later paths
          win.
empty     CTranslate2 forbids an empty output unless told otherwise.
"""

import contextlib
import logging
import warnings

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers", reason="export is compared with transformers: the extra `test`")
    ctranslate2 = pytest.importorskip("ctranslate2", reason="export is compared with CTranslate2: the extra `test`")
    from ctranslate2.converters import TransformersConverter

    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()

CLOSE = 1e-4
"""Scores that differ by less are a tie, which rounding decides."""


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        yield


class Transformers:
    def __init__(self, folder):
        with quiet():
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            self.model, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
        assert not any(report.values()), report
        self.model.eval()

    def __call__(self, lines, *, beam, length_penalty, most):
        """The new tokens of each line, without special tokens, and their text."""
        tokens, texts, early = [], [], {"early_stopping": "never"} if beam > 1 else {}
        for start in range(0, len(lines), 50):
            rows = self.tokenizer(lines[start : start + 50], return_tensors="pt", padding=True)
            with quiet():
                written = self.model.generate(
                    **rows, **early, num_beams=beam, length_penalty=length_penalty, max_new_tokens=most, max_length=None
                )
            texts += self.tokenizer.batch_decode(written, skip_special_tokens=True)
            tokens += [_until_end(row[1:].tolist(), self.tokenizer) for row in written]
        return tokens, texts


class CTranslate2:
    def __init__(self, folder, place):
        with quiet():
            TransformersConverter(str(folder)).convert(str(place))
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = ctranslate2.Translator(str(place), compute_type="float32", intra_threads=1)

    def __call__(self, lines, *, beam, length_penalty, most):
        pieces = [self.tokenizer.convert_ids_to_tokens(self.tokenizer(line)["input_ids"]) for line in lines]
        written = self.model.translate_batch(
            pieces,
            beam_size=beam,
            length_penalty=length_penalty,
            patience=1 if length_penalty == 0 else most,
            max_decoding_length=most,
            min_decoding_length=0,
        )
        tokens = [self.tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in written]
        return tokens, [self.tokenizer.decode(row, skip_special_tokens=True) for row in tokens]


def _until_end(row, tokenizer):
    row = row[: row.index(tokenizer.eos_token_id)] if tokenizer.eos_token_id in row else row
    while row and row[-1] == tokenizer.pad_token_id:
        row = row[:-1]
    return row


def differences(again, lines, ours, theirs, *, beam, length_penalty, most):
    """Lines whose translations differ: (wrong, ties, cut off by the limit there). `again` is the folder opened here,
    whose token ids are theirs."""
    wrong, ties, cut = [], [], []
    for line, own, tokens, text in zip(lines, ours, *theirs, strict=True):
        if own == text:
            continue
        (best,) = again.translate_nbest(
            [line], beam=beam, length_penalty=length_penalty, length_form="mean", max_length=most
        )
        if len(tokens) == most:
            cut.append(line)
        elif _gap(again, line, best[0].tokens, tokens, length_penalty if beam > 1 else None) < CLOSE:
            ties.append(line)
        else:
            wrong.append((line, own, text))
    return wrong, ties, cut


def _gap(model, line, one, other, length_penalty):
    """How far apart two outputs are: in score or, for greedy search, in the first token that differs."""
    (source,) = model.source_tokenizer.encode_batch([line])
    rows = []
    for tokens in (one, other):
        inputs, mask, read, wanted = model.sides([source], [tokens])
        with torch.no_grad():
            log_probs = model.model(inputs, mask, read).logits.log_softmax(-1)
        rows.append(log_probs[0].gather(1, wanted[0][:, None])[:, 0])
    if length_penalty is not None:
        return abs(sum((-1) ** i * row.sum().item() / len(row) ** length_penalty for i, row in enumerate(rows)))
    ends = [[*tokens, None] for tokens in (one, other)]
    place = next(i for i, (a, b) in enumerate(zip(*ends, strict=False)) if a != b)
    return abs((rows[0][place] - rows[1][place]).item())
