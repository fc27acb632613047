"""One training loop for every task: resumable to the bit."""
