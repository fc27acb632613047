"""One file per step of the story: see `regard.story`."""
