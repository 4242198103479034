"""Background tasks: many sent in one round trip, retried when they fail, their results collected."""

import holdfast as hf

app = hf.App(exception_codes={ConnectionError: "SMTP_DOWN"})
app.queue("email", concurrency=8)
refused: set[str] = set()


@app.task(queue="email", retry=hf.Retry.fixed([0.05, 0.1], retry_for=["SMTP_DOWN"]))
def send_email(to: str) -> hf.TaskResult[str, hf.TaskError]:
    if to not in refused and to.startswith("user3"):
        refused.add(to)
        raise ConnectionError("try again")  # the first time only
    if "@" not in to:
        return hf.TaskResult(err=hf.TaskError("BAD_ADDRESS", to))
    return hf.TaskResult(ok=f"sent to {to}")


if __name__ == "__main__":
    addresses = [f"user{number}@example.org" for number in range(5)] + ["nobody"]
    handles = send_email.send_many([(address,) for address in addresses])
    results = hf.gather_results(handles, timeout=30)
    for result in results:
        print(result.ok if result.is_ok else result.err)
    print(sum(result.is_ok for result in results), "of", len(results), "sent")
