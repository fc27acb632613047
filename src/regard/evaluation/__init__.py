"""Evaluation of models: evaluators (one file each), scores of generated text, suites of tasks (GLUE), and metrics."""
