# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the UDP echo example on one driver: datagrams of many sizes come back whole. `udp_echo.py PROGRAM DRIVER`."""

import json
import re
import signal
import socket
import subprocess
import sys

PATIENCE = 20.0
SIZES = [0, 1, 100, 1400, 1800]
ROUNDS = 100


def main(program: str, driver: str) -> int:
    command = [program, "127.0.0.1:0", "--driver", driver, "--buffers", "16"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        found = re.match(r"listening on 127\.0\.0\.1:(\d+)", service.stdout.readline())
        wrong = 0 if found else 1
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", int(found[1]) if found else 9))
            for number in range(ROUNDS if found else 0):
                sent = bytes([number]) * SIZES[number % len(SIZES)]
                client.send(sent)
                wrong += client.recv(65536) != sent
        service.send_signal(signal.SIGTERM)
        told = json.loads(service.communicate(timeout=PATIENCE)[0])
    wrong += told["driver"] != driver or told["handler_messages"] != ROUNDS or service.returncode != 0
    print(f"udp_echo on {told['driver']}: {told['handler_messages']} datagrams, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
