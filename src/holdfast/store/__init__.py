"""The memory: load a working set, save it, find what is due. No rule about promises lives here."""
