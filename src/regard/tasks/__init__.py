"""What a model is trained for: from a batch to a loss and its counts. One file a task."""
