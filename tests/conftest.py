"""Shape annotations of the core are checked while the tests run; data and threads are set up once."""

import os
from pathlib import Path

from jaxtyping import install_import_hook

_hook = install_import_hook(["regard.attention", "regard.layers"], "tests.shapes.checked")

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402
from tests import shapes  # noqa: E402

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
settings.register_profile("regard", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("regard")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
    shapes.begin()


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data sets; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}: set REGARD_DATA")
    return folder
