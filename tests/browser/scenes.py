"""What the views are looked at with: one of everything that they show."""

from tests.browser.world import World

VIEWS = (
    "overview",
    "executions",
    "done",
    "failed",
    "waiting",
    "retrying",
    "locked",
    "called",
    "placeless",
    "progress",
    "family",
    "steps",
    "tree",
    "messages",
    "streams",
    "log",
    "raw",
    "tasks",
    "task",
    "queues",
    "queue",
    "schedules",
    "schedule",
    "workers",
    "promises",
    "promise",
    "start",
    "audit",
)


class Scenes:
    """`place`: what follows the `#/` of a view; `says`: a text that it must show."""

    def __init__(self, task: str, schedule: str) -> None:
        self._places = {
            "overview": ("overview", "Started and ended"),
            "executions": ("executions?prefix=scene-", "scene-done"),
            "done": ("executions/scene-done", "receipt for 1999 on good"),
            "failed": ("executions/scene-failed", "was declined"),
            "waiting": ("executions/scene-approval", "scene-approval:approval"),
            "retrying": ("executions/scene-retry", "tried once"),
            "locked": ("executions/scene-label-2", "held by"),
            "called": ("executions/scene-called", "a promise that somebody settles"),
            "placeless": ("executions/scene-place-2", "a free place in its queue"),
            "progress": ("executions/scene-catalogue", "62 %"),
            "family": ("executions/scene-family", "checkout"),
            "steps": ("executions/scene-done?tab=steps", "reserve"),
            "tree": ("executions/scene-family?tab=tree", "checkout"),
            "messages": ("executions/scene-basket?tab=messages", "tea"),
            "streams": ("executions/scene-basket?tab=streams", "tea is in the basket"),
            "log": ("executions/scene-done?tab=log", "created"),
            "raw": ("executions/scene-done?tab=raw", "Download the history"),
            "tasks": ("tasks", "report"),
            "task": (f"tasks/{task}", "no data for q1"),
            "queues": ("queues", "mail"),
            "queue": ("queues/letters", "customer-2"),
            "schedules": ("schedules", "weekdays"),
            "schedule": (f"schedules/{schedule}", "Europe/Berlin"),
            "workers": ("workers", "Knows to run"),
            "promises": ("promises?prefix=scene-approval", "scene-approval:approval"),
            "promise": ("promises/scene-approval%3Aapproval", "Nobody has settled it yet"),
            "start": ("start?name=checkout", "Reserve, charge and pack"),
            "audit": ("audit", "Start an execution"),
        }
        assert tuple(self._places) == VIEWS

    def place(self, view: str) -> str:
        return self._places[view][0]

    def says(self, view: str) -> str:
        return self._places[view][1]


def scenes(shop: World) -> Scenes:
    shop.start_execution(
        "checkout", "17", "good", 1999, id="scene-done", tags={"customer": "4", "region": "eu"}
    )
    shop.start_execution("checkout", "18", "bad-card", 50, id="scene-failed")
    shop.start_execution("refund", "17", id="scene-approval")
    shop.start_execution("family", 2, id="scene-family")
    shop.start_execution("nap", 86_400, id="scene-nap")
    shop.start_execution("restock", "tea", id="scene-retry")
    shop.start_execution("welcome", "ada", id="scene-welcome")
    shop.start_execution("catalogue", str(shop.directory / "scene-marker"), id="scene-catalogue")
    for number in (1, 2):
        shop.start_execution("print_label", str(number), id=f"scene-label-{number}")
        shop.until(f"scene-label-{number}", "suspended")
    shop.start_execution("delegate", "Ship order 17 by air?", id="scene-called")
    shop.ask("PUT", "queues/mail", {"concurrency": 2, "keyConcurrency": 1})  # as the shop declares it
    for number in (1, 2):
        place = {"queue": "mail", "limitKey": "customer-4"}
        shop.start_execution("confirm", "Send it?", id=f"scene-place-{number}", **place)
    shop.until("scene-place-1", "suspended")
    shop.start_execution("confirm", "Go on?", id="scene-halted")
    shop.until("scene-halted", "suspended")
    shop.post("executions/scene-halted/halt", {"reason": "wait for the fix of the tax table"})
    hour = {"count": 100, "perMs": 3_600_000}
    shop.ask(
        "PUT",
        "queues/letters",
        {"concurrency": 4, "keyConcurrency": 2, "rate": hour, "fair": True, "weights": {"customer-2": 3}},
    )
    for number in range(9):
        shop.post(
            "tasks",
            {
                "task": "send_mail",
                "queue": "letters",
                "args": ["ada"],
                "limitKey": f"customer-{number % 4}",
                "check": False,
            },
        )
    shop.start_execution("basket", id="scene-basket")
    shop.post("executions/scene-basket/messages", {"name": "tea", "price": 5})
    task = shop.post("tasks", {"task": "report", "queue": "reports", "args": ["q1", True]})["id"]
    shop.post("tasks", {"task": "send_mail", "queue": "mail", "args": ["ada"]})
    shop.until("scene-done", "completed")
    shop.until("scene-failed", "failed")
    shop.until("scene-approval", "suspended")
    shop.until("scene-family", "completed")
    shop.until_true(lambda: shop.get("executions/scene-basket/streams")["streams"].get("log") == 1)
    shop.until_true(lambda: shop.get(f"tasks/{task}")["status"] == "failed")
    [schedule] = [each["id"] for each in shop.get("schedules")["schedules"] if "report" in each["id"]]
    return Scenes(task, schedule)
