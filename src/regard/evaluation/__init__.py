"""How good a model is: evaluators (one file each), scores of generated text, suites of tasks (GLUE), and metrics."""
