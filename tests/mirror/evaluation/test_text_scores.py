"""Scores of texts: each is what sacrebleu says when it is called directly, and each has its signature."""

import sys

import pytest
import sacrebleu
import sacremoses

from regard.core.errors import UnknownName, UsageError
from regard.evaluation.moses import lowercased_words
from regard.evaluation.text_scores import score

TEXTS = [
    "Ein Mann mit einem orangefarbenen Hut starrt auf etwas.",
    "Dr. Müllers Hund läuft z.B. am 3. Mai, durch's hohe Gras!",
    'Eine Frau sagt: "Das ist (fast) alles", 3,5 km weit.',
]
REFERENCES = [
    "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
    "dr. Müllers Hund läuft z.B. am 3. Mai durch's hohe Gras.",
    'Eine Frau sagt: "Das ist (fast) alles", etwa 3,5 km weit.',
]


@pytest.mark.parametrize("language", ["de", "en", "fr"])
def test_moses_bleu_is_that_of_sacrebleu_on_lowercased_moses_words(language):
    tokenizer = sacremoses.MosesTokenizer(lang=language)
    words = [[tokenizer.tokenize(line.lower(), return_str=True) for line in lines] for lines in (TEXTS, REFERENCES)]
    direct = sacrebleu.corpus_bleu(words[0], [words[1]], tokenize="none", lowercase=True, force=True)
    scores = score(TEXTS, REFERENCES, moses=language)
    assert scores.bleu_moses == round(direct.score, 2)
    assert scores.bleu_moses_signature == f"nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:{sacrebleu.__version__}"
    assert scores.moses == f"{language}, sacremoses {sacremoses.__version__}"
    # The words are not those of 13a or of spaces, so a score that forgot the tokenizer or the case would differ.
    assert scores.bleu_moses not in (scores.bleu, scores.bleu_tokenised)
    assert scores.bleu_moses != round(sacrebleu.corpus_bleu(TEXTS, [REFERENCES], lowercase=True).score, 2)


def test_the_other_scores_are_sacrebleus_with_or_without_moses():
    plain, more = score(TEXTS, REFERENCES), score(TEXTS, REFERENCES, moses="de")
    for scores in (plain, more):
        assert scores.bleu == round(sacrebleu.corpus_bleu(TEXTS, [REFERENCES]).score, 2)
        assert scores.chrf == round(sacrebleu.corpus_chrf(TEXTS, [REFERENCES]).score, 2)
        by_spaces = sacrebleu.corpus_bleu(TEXTS, [REFERENCES], tokenize="none", force=True)
        assert scores.bleu_tokenised == round(by_spaces.score, 2)
        assert "case:mixed|eff:no|tok:13a" in scores.bleu_signature
        assert "case:mixed|eff:no|tok:none" in scores.bleu_tokenised_signature
        assert "nc:6" in scores.chrf_signature
    assert (plain.bleu_moses, plain.bleu_moses_signature, plain.moses) == (None, None, None)


def test_words_follow_the_rules_of_the_language():
    assert lowercased_words("de")("Am 3. Mai.") == "am 3. mai ."
    assert lowercased_words("en")("Isn't it, 3.") == "isn 't it , 3 ."
    assert lowercased_words("fr")("L'homme.") == "l' homme ."


def test_a_language_without_rules_is_refused():
    with pytest.raises(UnknownName, match="unknown language of Moses' tokenizer: got 'xx', expected one of as, bn, ca"):
        score(TEXTS, REFERENCES, moses="xx")


def test_without_the_package_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(UsageError, match="sacremoses, which is not installed. Run `pip install sacremoses`"):
        score(TEXTS, REFERENCES, moses="de")
    assert score(TEXTS, REFERENCES).bleu_moses is None
