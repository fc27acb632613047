"""One file a step of the story: see `regard.story`."""
