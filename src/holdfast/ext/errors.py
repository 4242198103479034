"""What a program can meet that runs agents. `MissingLibrary` is where libraries are loaded (optional.py)."""

from holdfast.protocol.errors import Explained


class CheckpointsInWorkflow(Explained, RuntimeError):
    """A graph in the code of a workflow was given a checkpointer or a store that asks the node."""

    code = "HF7202"
    hint = "Compile it with InMemorySaver(), made in the workflow, and use the store inside of nodes."
