"""Workflows on a platform that starts your code for each request. A wait ends the request.

    holdfast serve --push-hosts 127.0.0.1:8080 --push-private
    uvicorn examples.web.push_function:application --port 8080
    python -m examples.web.push_function

In production the function has an `https` URL and a token: HOLDFAST_PUSH_TOKEN where it runs, and
`--push-token` with `--push-token-hosts` at the server.
"""

import os

import holdfast as hf

here = os.environ.get("FUNCTION_URL", "http://127.0.0.1:8080/run")  # where the server reaches this code
app = hf.App(os.environ.get("HOLDFAST_URL", "http://127.0.0.1:8001"), group=here, worker=False)


@hf.step
def greet(user: str) -> str:
    return f"welcome, {user}"


@app.workflow
async def onboard(user: str) -> str:
    greeting = await greet(user)
    await hf.sleep("1s")  # or "3d": no request is open, and no process has to be there
    return f"{greeting}; how was your first day?"


application = app.push_endpoint()  # asks for the token of HOLDFAST_PUSH_TOKEN, if that is set


if __name__ == "__main__":
    with app:
        print(onboard.start("ada").result())
