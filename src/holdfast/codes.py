"""Why a task, a send or a lookup failed: the codes of Holdfast itself. And which states end a task.

if result.err_value.error_code == hf.codes.OutcomeCode.TASK_EXPIRED: ...
"""

from holdfast.jobs.codes import (
    ContractCode as ContractCode,
    OperationalCode as OperationalCode,
    OutcomeCode as OutcomeCode,
    RetrievalCode as RetrievalCode,
    SendCode as SendCode,
)
from holdfast.jobs.info import TASK_TERMINAL_STATES as TASK_TERMINAL_STATES

__all__ = [
    "TASK_TERMINAL_STATES",
    "ContractCode",
    "OperationalCode",
    "OutcomeCode",
    "RetrievalCode",
    "SendCode",
]
