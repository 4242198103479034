"""The tokens of a server that asks for them: for everything, for looking only, for one prefix."""

from pathlib import Path

TOKENS = {"admin": "admin-token-1", "reader": "reader-token-1", "eu": "eu-token-12345"}


def token_flags(directory: Path) -> list[str]:
    lines = [f"{TOKENS['admin']} name=ada", f"{TOKENS['reader']} read-only", f"eu- {TOKENS['eu']}"]
    file = directory / "tokens"
    file.write_text("\n".join(lines), "utf-8")
    return ["--token-file", str(file)]
