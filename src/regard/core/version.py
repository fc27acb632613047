"""The version, which model folders and `regard --version` name."""

VERSION = "0.1.0"
