"""A long import that tells how far it is. When an attempt fails or dies, the next goes on from there.

python examples/import_progress.py
"""

import holdfast as hf

app = hf.App()
rows = [f"row {number}" for number in range(1, 11)]
seen: list[str] = []


@app.task(retry=hf.Retry(attempts=3, delay="0.05s"))
def load_rows(name: str) -> int:
    before = hf.current().progress  # what the attempt before this one has told
    done = before.fields["rows"] if before is not None else 0
    for number, row in enumerate(rows[done:], done + 1):
        seen.append(row)  # in real life: an insert that may be repeated for the last row
        hf.progress(number / len(rows), rows=number)
        if number == 6 and hf.current().attempt == 1:
            raise ConnectionError("the database is gone")
    return len(rows)


def main() -> None:
    with app:
        handle = load_rows.send("customers.csv")
        print(handle.get(30).ok_value, "rows, attempts:", handle.info().retry_count + 1)
        print("repeated:", len(seen) - len({*seen}))


if __name__ == "__main__":
    main()
