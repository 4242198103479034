"""Values to durable text and back: codecs, signatures, errors as values, limits, ids, tags, durations."""
