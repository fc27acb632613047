"""What the training of each task differs in, one file a task: its `data` section, and how that becomes batches.

A recipe's `task` is the name of a file here. What all of them share is `runs/job.py`.
"""
