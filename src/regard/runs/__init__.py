"""A training run, from a recipe to a model folder.

recipe       task, data, model and training as data
setup        what one task's training differs in; jobs/ holds one file a task
job          everything that all tasks share: vocabulary, sizes, batches, validation, what is stored
run          one run in one folder
quickstart   a run that needs no data
"""
