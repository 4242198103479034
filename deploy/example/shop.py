"""What the workers of compose.yaml and of the Kubernetes manifests run, until you put your own code here."""

import holdfast as hf

app = hf.App()  # HOLDFAST_URL and HOLDFAST_TOKEN say where the nodes are
app.queue("email", concurrency=10)


@hf.step(retry=hf.Retry(attempts=5))
def charge(card: str, cents: int) -> str:
    return f"charged {cents} to {card}"


@app.task(queue="email")
def send_receipt(to: str, receipt: str) -> str:
    return f"sent to {to}: {receipt}"


@app.workflow
async def checkout(card: str, cents: int) -> str:
    return await charge(card, cents)
