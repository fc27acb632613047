"""Data that is made, not fetched: each file is one generator, the same on every machine for a given seed."""
