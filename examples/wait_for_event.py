"""Events: a sign-up starts a workflow, which waits for the verification; webhooks may come twice."""

import holdfast as hf

app = hf.App()


@app.on("user.signed_up")
@app.workflow
async def onboarding(event: dict[str, str]) -> str:
    try:
        verified = await hf.event("user.verified", user=event["user"], timeout="7d", look_back="1h")
    except hf.TimedOut:
        return f"{event['user']} never came back"
    return f"{event['user']} came by {verified['via']}"


if __name__ == "__main__":
    with app:
        for _ in range(2):  # the provider delivers its webhook twice
            app.event("user.signed_up", user="ada", id="evt-1")
        app.event("user.verified", user="ada", via="mail")
        print(app.handle("onboarding-evt-1").result())
