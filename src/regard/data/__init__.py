"""From raw files to batches: lines, tokenizers, encoded pairs on disk, and a loader that can stop and resume."""
