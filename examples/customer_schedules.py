"""Schedules made while the program runs: one for each customer, paused, triggered and deleted on request.

python examples/customer_schedules.py
"""

import holdfast as hf

app = hf.App()


def write_report(customer: str) -> str:
    return f"report for {customer}"


@app.workflow
async def report(customer: str) -> str:
    return await hf.run(write_report, customer)


def main() -> None:
    with app:
        for customer, zone in (("acme", "Europe/Paris"), ("globex", "America/New_York")):
            app.schedules.create(f"report-{customer}", report, customer, cron="0 9 * * *", timezone=zone)
        app.schedules.get("report-globex").pause()
        for schedule in app.schedules.list(prefix="report-"):
            print(schedule.id, schedule.cron, "active" if schedule.paused_at is None else "paused")

        run = app.schedules.get("report-acme").trigger()
        print(app.handle(run).result(10))
        for schedule in app.schedules.list(prefix="report-"):
            app.schedules.get(schedule.id).delete()
        print("schedules left:", len(app.schedules.list(prefix="report-")))


if __name__ == "__main__":
    main()
