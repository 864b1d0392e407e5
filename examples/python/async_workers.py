# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workers on threads of their own, with channels between them: `async_workers.py [--driver D] [--workers N]`.

Each worker hashes the jobs that it is sent and answers over a channel that all of them share; the channels hold few,
so whoever is faster waits. Prints one line of JSON when all are answered.
"""

import argparse
import asyncio
import hashlib
import json
import threading
from typing import NamedTuple

import quoit
from quoit import aio

JOBS = 400


class Job(NamedTuple):
    number: int
    data: bytes


class Answer(NamedTuple):
    number: int
    digest: str
    worker: int


async def work(number: int, inbox: "asyncio.Future[aio.Sender[Job]]", answers: aio.Sender[Answer]) -> None:
    """One worker: makes the channel that it is sent jobs by, and hands the sending end over."""
    jobs: aio.Receiver[Job]
    sender, jobs = await aio.channel(4)
    inbox.get_loop().call_soon_threadsafe(inbox.set_result, sender)
    del sender
    async for job in jobs:
        await answers.send(Answer(job.number, hashlib.sha256(job.data).hexdigest(), number))


async def main() -> None:
    loop = asyncio.get_running_loop()
    host = aio.current()
    answer_here: aio.Sender[Answer]
    answers: aio.Receiver[Answer]
    answer_here, answers = await aio.channel(16)
    inboxes: list[asyncio.Future[aio.Sender[Job]]] = [loop.create_future() for _ in range(args.workers)]
    threads = [
        threading.Thread(target=lambda n=n, i=i: quoit.run_async(work(n, i, answer_here), driver=args.driver))
        for n, i in enumerate(inboxes)
    ]
    for thread in threads:
        thread.start()
    senders = await asyncio.gather(*inboxes)
    inboxes.clear()

    async def give() -> None:
        for number in range(JOBS):
            await senders[number % len(senders)].send(Job(number, b"%d" % number))
        for sender in senders:
            sender.close()

    giving = asyncio.create_task(give())
    got = [await answers.recv() for _ in range(JOBS)]
    await giving
    answers.close()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    right = all(one.digest == hashlib.sha256(b"%d" % one.number).hexdigest() for one in got)
    shares = [sum(one.worker == number for one in got) for number in range(args.workers)]
    print(json.dumps({"driver": host.runtime.driver, "answers": len(got), "right": right, "shares": shares}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", default="auto")
    parser.add_argument("--workers", type=int, default=3)
    args = parser.parse_args()
    quoit.run_async(main(), driver=args.driver)
