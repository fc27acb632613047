"""Folders of other libraries, in and out, by the tables that the models state."""
