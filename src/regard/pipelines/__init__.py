"""What a loaded model can do, one file a task: text or images in, results out. Found by the task's name."""

from __future__ import annotations

from regard.core import lookup
from regard.folder import ModelFolder
from regard.pipelines._loaded import Loaded


def make_pipeline(stored: ModelFolder) -> Loaded:
    """The model of a folder, with the verbs of its task."""
    made: Loaded = lookup.find(__name__, stored.task)(stored)
    return made


__all__ = ["Loaded", "make_pipeline"]
