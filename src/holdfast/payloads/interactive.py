"""Is somebody typing? At a prompt and in a notebook a cell is run again and again.

There, what is declared a second time replaces what was declared before, as names do; in a program two
declarations of one name are a mistake, and are refused. What already runs keeps the code that it began with.
"""

import sys


def is_interactive() -> bool:
    """Python's prompt, IPython and Jupyter set `sys.ps1`; programs do not."""
    return hasattr(sys, "ps1")
