"""A model's name with its article."""

from regard.core import lookup
from regard.core.articles import with_article


def test_every_model_has_its_article():
    by_letter = {"efficientnet_lite", "elmo", "encoder", "lstmn", "lstmn_seq2seq", "ngram", "ntm", "rnn"}
    for name in lookup.names("regard.models"):
        assert with_article(name) == f"{'an' if name in by_letter else 'a'} {name}"
