"""Random tiny models of the `transformers` package, opened here from the folders that it writes."""

import contextlib
import logging
import warnings

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip(
        "transformers", reason="parity needs the transformers package: pip install -e '.[bench]'"
    )
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()

BERT = {"vocab_size": 41, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
        "max_position_embeddings": 32}  # fmt: skip
GPT2 = {"vocab_size": 41, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 32, "bos_token_id": 1,
        "eos_token_id": 2, "pad_token_id": 0}  # fmt: skip
LLAMA = {"vocab_size": 41, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6, "intermediate_size": 40,
         "num_key_value_heads": 2, "max_position_embeddings": 32, "pad_token_id": 0}  # fmt: skip
VIT = {"image_size": 16, "patch_size": 4, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
       "intermediate_size": 40, "num_labels": 5}  # fmt: skip
MARIAN = {"vocab_size": 41, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
          "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "pad_token_id": 40,
          "decoder_start_token_id": 40, "eos_token_id": 0, "forced_eos_token_id": 0, "max_position_embeddings": 64,
          "scale_embedding": True}  # fmt: skip


def make(kind: str, config: str, **options):
    """A random model with weights large enough that nothing hides behind small numbers."""
    torch.manual_seed(0)
    with warnings.catch_warnings(), contextlib.suppress(AttributeError):
        warnings.simplefilter("ignore")
        model = getattr(transformers, kind)(getattr(transformers, config)(**options)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:  # Marian's sinusoids, which are no weights
                continue
            if "norm" not in name.lower() and "ln_" not in name:
                parameter.normal_(std=0.3)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture
def written(tmp_path):
    """`written(model)`: the folder in which the model saved itself."""

    def write(model, name="theirs"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.save_pretrained(tmp_path / name)
        return tmp_path / name

    return write


def reopened(kind: str, folder, unread=()):
    """A folder opened by `transformers`; it must find every weight, but for those that it never reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, report = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert set(report["missing_keys"]) <= set(unread)
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    return model.eval()
