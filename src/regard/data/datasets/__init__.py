"""Generated data sets: each file is one generator, with the same output on every machine for a given seed."""
