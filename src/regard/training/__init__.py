"""One training loop for every task; a resumed run gives the same bits."""
