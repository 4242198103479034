"""Errors of programs that run agents. `MissingLibrary` is where libraries are loaded (optional.py)."""

from holdfast.protocol.errors import Explained


class CheckpointsInWorkflow(Explained, RuntimeError):
    """A graph in the code of a workflow was given a checkpointer or a store that calls the node."""

    code = "HF7202"
    hint = (
        "Compile it with InMemorySaver(), made in the workflow; use the store inside the nodes of the graph."
    )
