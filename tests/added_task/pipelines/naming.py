"""Images to captions."""

from __future__ import annotations

from regard.core.search import Search
from regard.data.images import ImageForm
from regard.decoding import decode
from regard.pipelines._loaded import Loaded
from regard.pipelines._verbs import verb


class NamingPipeline(Loaded):
    usage = "regard.load('FOLDER').caption(['image.png'])"
    accepts = ("image",)

    @verb("a captioning model")
    def caption(self, images, **search):
        """The best caption of each image."""
        form, tokens = ImageForm.parse(self.stored.extra["image"], "image"), self.tokenizer
        options = Search.parse({**self.stored.search.model_dump(), "max_length": 20, **search}, "search options")
        inputs = {"pixel_values": form.pixel_values(images)}
        rows = decode(self.model, inputs, options, bos=tokens.bos, eos=tokens.eos, pad=tokens.pad)
        return [tokens.decode(hypotheses[0].tokens) for hypotheses in rows]

    def texts(self, inputs, **search):
        return self.caption(inputs, **search)
