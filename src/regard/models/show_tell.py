"""Show and Tell (Vinyals et al. 2015): the image is the first input of an LSTM that generates its caption.

    x_{−1} = W_i CNN(I)      x_t = W_e y_t,  t = 0 …      h_t = LSTM(x_t, h_{t−1})      p(y_{t+1}) = softmax(W_o h_t)

y_0 is the start token. CNN(I) is the mean of the encoder's grid; W_i is `image`, W_e `embedding`, W_o `output`. The
image is an input only once: as the paper found, an LSTM that sees it at every step overfits.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core import taps
from regard.core.output import Output
from regard.core.state import State
from regard.layers.dropout import Dropout
from regard.layers.embedding import TokenEmbedding
from regard.layers.recurrent import Recurrent
from regard.models._captioner import SIZES, Captioner, CaptionerConfig


class ShowTellConfig(CaptionerConfig):
    """No further options."""


class ShowTell(Captioner):
    Config = ShowTellConfig
    SIZES = SIZES
    whole = True
    usual_method = "attribute"

    def __init__(self, config: ShowTellConfig) -> None:
        super().__init__()
        self._add_encoder(config)
        self.image = nn.Linear(self.encoder.d_model, config.d_embedding)
        self.embedding = TokenEmbedding(config.vocab_size, config.d_embedding)
        self.decoder = Recurrent("lstm", config.d_embedding, config.d_hidden)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.d_hidden, config.vocab_size)

    def forward(
        self,
        target: Int[Tensor, "B T"],
        pixel_values: Tensor | None = None,
        features: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Output:
        """Logits of the word after each word of `target`."""
        first_B1D = self.dropout(self.image(self.seen(pixel_values, features)))
        words = taps.point("decoder.input", self.dropout(self.embedding(target)), "prefix")
        states, _ = self.decoder(torch.cat([first_B1D, words], 1))
        hidden = self.dropout(taps.point("decoder.states", states[:, 1:], "prefix"))
        return Output(hidden, lambda: self.output(hidden))

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """Logits of the decoder's states."""
        return self.output(hidden)

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        _, first = self.decoder(self.dropout(self.image(self._first_features(inputs))))
        for name, part in first.items():
            state.put_sources(f"first.{name}", sources_R, part)

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        numbers_N = rows.groups.places_N // rows.groups.width  # the index of each row's source
        start = {
            name: rows.get(name, rows.of_sources(f"first.{name}")[numbers_N]) for name in self.decoder.empty_state(1)
        }
        lengths = counts_N if rows.uniform_start is None else None
        hidden, after = self.decoder(self.dropout(self.embedding(tokens_NT)), lengths=lengths, state=start)
        for name, part in after.items():
            rows.put(name, part)
        rows.advance()
        logits: Tensor = self.output(self.dropout(rows.last(hidden)))
        return logits
