# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the balance example: each worker gets its share, each byte comes back. `balance.py PROGRAM DRIVER`."""

import json
import re
import signal
import socket
import subprocess
import sys

PATIENCE = 20.0
CLIENTS = 9
ROUNDS = 20


def echo(client: socket.socket, sent: bytes) -> int:
    client.sendall(sent)
    got = b""
    while len(got) < len(sent) and (more := client.recv(len(sent) - len(got))):
        got += more
    return got != sent


def serve(port: int) -> int:
    """How many answers were wrong. All clients stay to the end: so it is known how many each worker must get."""
    clients = []
    wrong = 0
    for number in range(CLIENTS):
        client = socket.create_connection(("127.0.0.1", port), PATIENCE)
        wrong += echo(client, bytes([number]) * 1000)
        clients.append(client)
    for number in range(ROUNDS):
        wrong += sum(echo(client, bytes([number]) * (1 + 700 * number)) for client in clients)
    for client in clients:
        client.shutdown(socket.SHUT_WR)
        wrong += client.recv(1) != b""
        client.close()
    return wrong


def main(program: str, driver: str) -> int:
    command = [program, "127.0.0.1:0", "--driver", driver, "--buffers", "16"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        found = re.match(r"listening on 127\.0\.0\.1:(\d+)", service.stdout.readline())
        wrong = serve(int(found[1])) if found else 1
        service.send_signal(signal.SIGTERM)
        served, told = (json.loads(line) for line in service.communicate(timeout=PATIENCE)[0].splitlines())
    wrong += told["driver"] != driver or served["served"] != [CLIENTS // 3] * 3 or service.returncode != 0
    print(f"balance on {told['driver']}: workers served {served['served']}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
