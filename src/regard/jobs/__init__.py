"""Kinds of training, one file each: what the `data` section of its recipes holds, and how that becomes a model.

A recipe's `task` is the name of a file here. What all of them share (the folder, the loop, averaging) is `regard.run`.
"""
