"""What a model is trained for, one file a task: a loss, and what a batch shows with teacher forcing."""
