"""Layers around attention: normalisation, feed-forward, embedding, recurrence, convolution."""
