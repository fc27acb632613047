"""What a model is trained for, one file per task: a loss, and measurements with teacher forcing."""
