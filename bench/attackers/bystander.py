"""Somebody who wants nothing but to create a promise now and then, in a process of its own.

`python -m bench.attackers.bystander HOST PORT` creates one after the other until its input ends, and prints
the longest wait in seconds. In the attacker's process it would wait for the attacker as well.
"""

import select
import socket
import sys
import time

from bench.attackers.victim import encode, envelope, post_head

far_ms = 4_102_444_800_000
pause_s = 0.01


def create(connection: socket.socket, name: str) -> float:
    """The seconds until the whole answer is there."""
    body = encode(envelope("promise.create", {"id": name, "timeoutAt": far_ms}))
    began = time.perf_counter()
    connection.sendall(post_head(len(body)) + body)
    answer = b""
    while (end := answer.find(b"\r\n\r\n")) < 0:
        answer += _receive(connection)
    head = answer[:end].decode("latin-1").lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    while len(answer) < end + 4 + length:
        answer += _receive(connection)
    return time.perf_counter() - began


def _receive(connection: socket.socket) -> bytes:
    received = connection.recv(65_536)
    if not received:
        raise ConnectionError("the server hung up")
    return received


def main() -> None:
    host, port = sys.argv[1:]
    longest, number = 0.0, 0
    with socket.create_connection((host, int(port))) as connection:
        while not select.select([sys.stdin], [], [], pause_s)[0]:
            longest = max(longest, create(connection, f"bystander-{number}"))
            number += 1
    print(longest)


if __name__ == "__main__":
    main()
