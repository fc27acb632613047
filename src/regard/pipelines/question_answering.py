"""Answers questions about a text with a span of it; long texts are read in overlapping windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from regard.core.errors import DataError
from regard.core.output import Output
from regard.data.spans import LONGEST_QUESTION, SpanRows
from regard.data.squad import Question
from regard.pipelines import _subjects as subjects
from regard.pipelines._loaded import check_texts
from regard.pipelines._verbs import verb
from regard.pipelines.sentence_similarity import SentenceSimilarityPipeline
from regard.tasks.question_answering import Answer, answers, best_places


class QuestionAnsweringPipeline(SentenceSimilarityPipeline):
    """The lengths of windows, overlaps and answers are stored with the model."""

    usage = 'regard answer FOLDER --question "…" --context FILE'
    n_cut_questions: int = 0
    """How many questions so far had more than `longest_question` tokens and were cut; contexts are read in full."""
    longest_question: int = LONGEST_QUESTION

    def head_answer(self, output: Output, inputs: Mapping[str, torch.Tensor]) -> subjects.Answer:
        """Where the answer begins and ends, chosen as `answer` chooses it."""
        assert output.logits is not None
        real, context = inputs["attention_mask"].bool(), self._words(inputs) & (inputs["token_type_ids"] == 1)
        rows = zip(output.logits.float(), context, strict=True)
        return subjects.span_answer([self._places(logits, inside) for logits, inside in rows], real)

    def _places(self, logits: torch.Tensor, inside: torch.Tensor) -> tuple[int, int]:
        """The first and last token of the answer; (0, 0) for no answer."""
        tokens = inside.nonzero()[:, 0].tolist()
        if not tokens:
            return 0, 0
        score, start, end = best_places(logits[inside], self._longest_answer)
        nothing, threshold = float(logits[0].sum()), self._threshold
        if threshold is not None and nothing - score > threshold:
            return 0, 0
        return tokens[start], tokens[end]

    @property
    def _longest_answer(self) -> int:
        longest: int = self.stored.extra.get("max_answer", 30)
        return longest

    @property
    def _threshold(self) -> float | None:
        """How far "no answer" must be above the best span; None: there is always an answer."""
        known = self.stored.extra
        return float(known.get("threshold", 0.0)) if known.get("unanswerable") else None

    def answer_label(self, number: int) -> str:
        return ("start", "end")[number]

    @verb("a question answering model")
    def answer(self, questions: Sequence[str], contexts: Sequence[str], *, rows: int = 16) -> list[Answer]:
        """The answer to each question from its context; "" if there is none."""
        check_texts(questions)
        check_texts(contexts)
        if len(questions) != len(contexts):
            raise DataError(
                "each question needs a context", got=f"{len(questions)} and {len(contexts)}", expected="the same number"
            )
        known = self.stored.extra
        asked = [
            Question(str(number), text, context, ())
            for number, (text, context) in enumerate(zip(questions, contexts, strict=True))
        ]
        longest = min(known.get("max_len", 384), self.model.longest)
        self.longest_question = min(LONGEST_QUESTION, longest // 2)
        encoded = self.tokenizer.encode_batch(list(questions))
        self.n_cut_questions += sum(len(ids) > self.longest_question for ids in encoded)
        made = SpanRows(self.tokenizer, asked, max_len=longest, overlap=min(known.get("overlap", 128), longest // 3))
        windows: dict[int, torch.Tensor] = {}
        model = self.runner(len(made) * longest)
        for start in range(0, len(made), rows):
            chosen = range(start, min(start + rows, len(made)))
            tensors = made.tensors(chosen)
            mask = tensors["attention_mask"]
            with torch.inference_mode():
                logits = model(tensors["input_ids"], mask, tensors["token_type_ids"]).logits.float()
            windows |= {row: logits[place, mask[place]] for place, row in enumerate(chosen)}
        longest_answer, threshold = self._longest_answer, self._threshold
        return answers(made.windows, windows, list(contexts), longest=longest_answer, threshold=threshold)
