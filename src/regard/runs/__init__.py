"""A training run, from a recipe to a model folder.

recipe       task, data, model and training as data
setup        what differs between tasks; jobs/ has one file per task
job          what all tasks share: vocabulary, sizes, batches, validation, what is stored
run          one run in one folder
quickstart   a run that needs no data
"""
