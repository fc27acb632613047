"""The version, which is written to model folders and shown by `regard --version`."""

VERSION = "0.1.0"
