"""The language: records, requests, replies, messages, validation, dialects. No I/O."""
