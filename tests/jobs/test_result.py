"""Results, errors and codes: exactly one of ok and err, codes that mean one thing, how they are stored."""

from dataclasses import dataclass
from typing import Any

import pytest

import holdfast as hf
from holdfast.jobs.codes import RESERVED, as_code
from holdfast.jobs.outcome import AnyResult, conclude, conclude_error, read_result
from holdfast.jobs.result import NotDone, Ok
from holdfast.jobs.task import ExceptionCodes, TaskDefinition, TaskOptions
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.records import Promise, Value

PAYLOADS = Payloads()


@dataclass(frozen=True)
class Receipt:
    number: int


class Reason(hf.TaskError, frozen=True):
    data: Receipt | None = None


class Strict(hf.TaskError, frozen=True, kw_only=True):
    data: Receipt = Receipt(0)
    card: Receipt
    tries: int = 1


def task(function: Any, **options: Any) -> TaskDefinition[..., Any, Any, Any]:
    return TaskDefinition(function, function.__name__, TaskOptions(**options))


def pay(cents: int) -> hf.TaskResult[Receipt, Reason]: ...  # type: ignore[empty-body]


def plain(cents: int) -> Receipt: ...  # type: ignore[empty-body]


def strict() -> hf.TaskResult[None, Strict]: ...  # type: ignore[empty-body]


def nothing() -> None: ...


def round_trip(
    function: Any, returned: Any = None, raised: BaseException | None = None, **options: Any
) -> Any:
    made = task(function, **options)
    stored_outcome = (
        conclude(made, returned, PAYLOADS) if raised is None else conclude_error(made, raised, PAYLOADS)
    )
    state: Any = "resolved" if stored_outcome.code is None else "rejected"
    promise = Promise("p", state, Value(), stored_outcome.value, {}, 1, 1)
    assert (stored_outcome.value.headers or {}).get("holdfast-code") == stored_outcome.code
    return read_result(promise, made.returns, made.error_type, PAYLOADS, {})


def test_a_result_is_ok_or_err_and_says_which() -> None:
    ok: hf.TaskResult[int, hf.TaskError] = hf.TaskResult(ok=3)
    assert (ok.is_ok, ok.is_err, ok.ok, ok.err, ok.ok_value) == (True, False, 3, None, 3)
    error = hf.TaskError("SMTP_DOWN", "no route", {"host": "mx"})
    err: hf.TaskResult[int, hf.TaskError] = hf.TaskResult(err=error)
    assert (err.is_ok, err.is_err, err.ok, err.err, err.err_value) == (False, True, None, error, error)


def test_none_is_a_value_like_any_other() -> None:
    assert hf.TaskResult(ok=None).is_ok


@pytest.mark.parametrize("both", [{}, {"ok": 1, "err": hf.TaskError("X")}, {"err": ValueError("x")}])
def test_a_result_is_exactly_one_of_the_two(both: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        hf.TaskResult(**both)


def test_asking_for_the_other_one_raises_with_the_reason() -> None:
    cause = ValueError("no such card")
    failed: AnyResult = hf.TaskResult(err=hf.TaskError("DECLINED", "no", None, cause))
    with pytest.raises(hf.errors.NoSuchOutcome, match="DECLINED: no") as caught:
        _ = failed.ok_value
    assert caught.value.__cause__ is cause
    succeeded: AnyResult = hf.TaskResult(ok=1)
    with pytest.raises(hf.errors.NoSuchOutcome):
        _ = succeeded.err_value


@pytest.mark.parametrize("code", ["", "smtp_down", "SMTP DOWN", "1ST", "X" * 101, "ÄRGER"])
def test_a_code_is_capitals_and_underscores(code: str) -> None:
    with pytest.raises(hf.errors.BadCode):
        hf.TaskError(code)


def test_a_reserved_code_must_be_meant() -> None:
    with pytest.raises(hf.errors.BadCode, match="reserved for Holdfast"):
        hf.TaskError("WORKER_CRASHED")
    assert hf.TaskError(hf.codes.OperationalCode.WORKER_CRASHED).error_code == "WORKER_CRASHED"


def test_every_reserved_code_comes_back_as_itself() -> None:
    assert all(as_code(code.value) is code for code in RESERVED.values())
    assert as_code("SMTP_DOWN") == "SMTP_DOWN"


def test_a_value_comes_back_as_its_type() -> None:
    assert round_trip(pay, hf.TaskResult(ok=Receipt(7))).ok_value == Receipt(7)
    assert round_trip(plain, Receipt(7)).ok_value == Receipt(7)


def test_an_error_comes_back_with_its_data_typed_and_its_exception() -> None:
    error = Reason("DECLINED", "limit", Receipt(3), ValueError("over"))
    found = round_trip(pay, hf.TaskResult(err=error)).err_value
    assert type(found) is Reason
    assert (found.error_code, found.message, found.data) == ("DECLINED", "limit", Receipt(3))
    assert type(found.exception) is ValueError
    assert str(found.exception) == "over"


WRONG: AnyResult = hf.TaskResult(ok="no receipt")
NUMBER: AnyResult = hf.TaskResult(ok=5)
NONE: AnyResult = hf.TaskResult(ok=None)


@pytest.mark.parametrize("returned", [WRONG, None, 7])
def test_what_is_not_promised_is_a_mismatch(returned: Any) -> None:
    assert round_trip(pay, returned).err_value.error_code is hf.codes.ContractCode.RETURN_TYPE_MISMATCH


@pytest.mark.parametrize(
    ("function", "returned"),
    [(nothing, 5), (strict, NUMBER), (plain, None), (pay, NONE)],
)
def test_none_and_something_are_a_mismatch(function: Any, returned: Any) -> None:
    assert round_trip(function, returned).err_value.error_code is hf.codes.ContractCode.RETURN_TYPE_MISMATCH


def test_what_promises_none_gives_none() -> None:
    assert round_trip(nothing, None) == hf.TaskResult(ok=None)
    assert round_trip(strict, hf.TaskResult(ok=None)) == hf.TaskResult(ok=None)


def test_an_error_comes_back_with_the_fields_of_its_class() -> None:
    error = Strict("DECLINED", "no", data=Receipt(1), card=Receipt(2), tries=3)
    assert round_trip(strict, hf.TaskResult(err=error)).err_value == error


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (pay, hf.TaskError("DECLINED", "no", "a text")),
        (strict, hf.TaskError("DECLINED", "no", Receipt(1))),
        (strict, Strict("DECLINED", data=Receipt(1), card="text")),  # type: ignore[arg-type]
        (strict, Strict("DECLINED", data=None, card=Receipt(1))),  # type: ignore[arg-type]
    ],
)
def test_an_error_that_is_not_the_promised_one_is_a_mismatch_that_names_its_code(
    function: Any, error: hf.TaskError
) -> None:
    found = round_trip(function, hf.TaskResult(err=error)).err_value
    assert found.error_code is hf.codes.ContractCode.RETURN_TYPE_MISMATCH
    assert "DECLINED" in found.message


def test_a_plain_error_counts_as_the_promised_one_where_it_fits() -> None:
    found = round_trip(pay, hf.TaskResult(err=hf.TaskError("DECLINED", "no"))).err_value
    assert found == Reason("DECLINED", "no")


def test_an_error_whose_class_has_become_another_keeps_its_code_and_its_data() -> None:
    stored_outcome = conclude(task(pay), hf.TaskResult(err=Reason("DECLINED", "no", Receipt(3))), PAYLOADS)
    promise = Promise("p", "rejected", Value(), stored_outcome.value, {}, 1, 1)
    found = read_result(promise, None, Strict, PAYLOADS, {}).err_value
    assert found == hf.TaskError("DECLINED", "no", {"number": 3})


def test_a_raised_exception_has_its_code_also_where_a_class_of_errors_asks_for_more() -> None:
    found = round_trip(strict, raised=ValueError("v")).err_value
    assert (found.error_code, found.message) == (hf.codes.OperationalCode.UNHANDLED_EXCEPTION, "v")
    assert type(found) is hf.TaskError


def test_what_was_stored_before_a_task_promised_none_is_no_error() -> None:
    promise = Promise("p", "resolved", Value(), PAYLOADS.encode(5), {}, 1, 1)
    assert read_result(promise, task(nothing).returns, hf.TaskError, PAYLOADS, {}).ok_value == 5


def test_what_cannot_be_stored_says_where() -> None:
    found = round_trip(test_what_cannot_be_stored_says_where, {"a": [object()]}).err_value
    assert found.error_code is hf.codes.OperationalCode.WORKER_SERIALIZATION_ERROR
    assert "a" in found.message
    data: AnyResult = hf.TaskResult(err=hf.TaskError("X", data=object()))
    assert round_trip(pay, data).err_value.error_code is hf.codes.OperationalCode.WORKER_SERIALIZATION_ERROR


def test_a_raised_exception_gets_the_code_of_its_nearest_class() -> None:
    app = ExceptionCodes({OSError: "IO", LookupError: "LOOKUP"}, "APP")
    own = ExceptionCodes({ConnectionError: "NET"}, None, app)
    codes = {
        "NET": ConnectionResetError(),
        "IO": FileNotFoundError(),
        "LOOKUP": KeyError("k"),
        "APP": ValueError("v"),
    }
    for code, error in codes.items():
        assert round_trip(plain, raised=error, codes=own).err_value.error_code == code


def test_an_exception_that_nobody_mapped_is_unhandled() -> None:
    found = round_trip(plain, raised=ValueError("v")).err_value
    assert found.error_code is hf.codes.OperationalCode.UNHANDLED_EXCEPTION
    assert found.message == "v"
    assert type(found.exception) is ValueError


@pytest.mark.parametrize(
    ("state", "headers", "code"),
    [
        (
            "rejected",
            {"holdfast-code": "TASK_EXPIRED", "holdfast-worker": "w1"},
            hf.codes.OutcomeCode.TASK_EXPIRED,
        ),
        ("rejected", {"holdfast-code": "WORKER_CRASHED"}, hf.codes.OperationalCode.WORKER_CRASHED),
        ("rejected_canceled", {"holdfast-code": "TASK_CANCELLED"}, hf.codes.OutcomeCode.TASK_CANCELLED),
        ("rejected_canceled", None, hf.codes.OutcomeCode.TASK_CANCELLED),
        ("rejected", None, hf.codes.OperationalCode.UNHANDLED_EXCEPTION),
        ("rejected_timedout", None, hf.codes.OutcomeCode.TASK_TIMED_OUT),
        ("pending", None, hf.codes.RetrievalCode.RESULT_NOT_READY),
    ],
)
def test_what_the_engine_decides_is_an_error_with_its_code(
    state: Any, headers: dict[str, str] | None, code: str
) -> None:
    promise = Promise("p", state, Value(), Value(headers), {}, 1, 1)
    found = read_result(promise, int, hf.TaskError, PAYLOADS, {}).err_value
    assert found.error_code is code
    if state == "rejected":
        assert found.data == {"task_id": "p", "worker_id": (headers or {}).get("holdfast-worker")}


def test_a_rejection_with_empty_data_is_an_error_and_raises_nothing() -> None:
    """As every rejection in the older dialect that says nothing."""
    promise = Promise("p", "rejected", Value(), Value({}, ""), {}, 1, 1)
    found = read_result(promise, int, hf.TaskError, PAYLOADS, {}).err_value
    assert found.error_code is hf.codes.OperationalCode.UNHANDLED_EXCEPTION


def test_a_result_that_is_not_what_the_type_says_here_is_an_error() -> None:
    value = PAYLOADS.encode("text")
    found = read_result(Promise("p", "resolved", Value(), value, {}, 1, 1), int, hf.TaskError, PAYLOADS, {})
    assert found.err_value.error_code is hf.codes.OperationalCode.RESULT_DESERIALIZATION_ERROR


@pytest.mark.parametrize(
    "value", [Value({"holdfast-code": "no code"}), PAYLOADS.encode({"code": "no code", "message": "m"})]
)
def test_a_result_with_a_code_that_is_none_is_an_error_and_raises_nothing(value: Value) -> None:
    """Whoever speaks the protocol may have stored it."""
    promise = Promise("p", "rejected", Value(), value, {}, 1, 1)
    found = read_result(promise, int, hf.TaskError, PAYLOADS, {}).err_value
    assert found.error_code is hf.codes.OperationalCode.RESULT_DESERIALIZATION_ERROR
    assert "no code" in (found.message or "")


def test_ok_and_err_of_the_infrastructure_match_and_say_which() -> None:
    done: Ok[int] | hf.types.Err[str] = Ok(3)
    match done:
        case hf.types.Ok(value):
            assert value == 3
        case _:
            raise AssertionError
    assert (done.is_ok, done.is_err, done.ok_value) == (True, False, 3)
    failed: Ok[int] | hf.types.Err[str] = hf.types.Err("no")
    assert (failed.is_ok, failed.is_err, failed.err_value) == (False, True, "no")
    with pytest.raises(ValueError, match="there is no value: no"):
        _ = failed.ok_value
    with pytest.raises(hf.errors.NoSuchOutcome, match="no"):
        _ = NotDone("no").ok_value
    assert isinstance(NotDone("no"), hf.types.Err)


def test_the_seven_states_and_which_are_terminal() -> None:
    assert [status.value for status in hf.TaskStatus] == [
        "PENDING",
        "CLAIMED",
        "RUNNING",
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "EXPIRED",
    ]
    assert {status for status in hf.TaskStatus if status.is_terminal} == hf.codes.TASK_TERMINAL_STATES
    assert {*hf.codes.TASK_TERMINAL_STATES} == {"COMPLETED", "FAILED", "CANCELLED", "EXPIRED"}
