"""The queue: plain background tasks, for those who write and send them and for those who run them."""
