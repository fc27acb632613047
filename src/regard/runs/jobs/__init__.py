"""What differs between the training of tasks, one file per task: its `data` section, and how that becomes batches.

A recipe's `task` is the name of a file here. `runs/job.py` holds what all of them share.
"""
