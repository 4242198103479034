"""What the endpoints of web frameworks may be given: `holdfast.ext.web`, which needs none of them."""

from typing import Any

import pytest

import holdfast as hf
from holdfast.ext.web import Endpoints

app = hf.App("memory:")


@app.workflow
async def checkout() -> None: ...


@app.task
async def mail() -> None: ...


def plain() -> None: ...


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([checkout, plain], "plain is a function, not a workflow"),
        ([mail], "mail is a BackgroundTask, not a workflow"),
        (checkout, "Expected a list of workflows, got Workflow"),
        (app, "Expected a list of workflows, got App"),
    ],
)
def test_only_a_list_of_workflows_can_be_served(given: Any, why: str) -> None:
    with pytest.raises(hf.errors.NotAWorkflow, match=why):
        Endpoints(app, given)
