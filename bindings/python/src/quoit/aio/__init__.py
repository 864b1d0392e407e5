# SPDX-License-Identifier: MIT OR Apache-2.0
"""quoit with async and await: the objects of a worker, for asyncio's tasks.

Two ways to have a worker, and all else is the same in both:
  quoit.run_async(main())          the worker is the event loop, one crossing a tick
  async with quoit.aio.hosted():   the worker is a guest of the loop that runs already

asyncio's own tasks, TaskGroup, timeout, wait_for, Lock and Queue go with it.
"""

from .adopt import adopt_datagrams, adopt_file, adopt_listener, adopt_stream, inherited_listeners
from .channels import Receiver, Sender, channel, oneshot
from .datagrams import Datagram, DatagramSocket, bind, connect_datagrams
from .descriptors import Credentials, Detached, Parcel
from .files import File, offload, open_file
from .host import Host, current
from .hosted import hosted
from .listener import Listener, listen
from .loop import WorkerLoop, new_event_loop, run_async
from .options import Options
from .streams import Incomplete, Stream, TooLong, connect
from .tasks import spawn
from .timers import Ticker, every, sleep, sleep_until

__all__ = [
    "Credentials", "Datagram", "DatagramSocket", "Detached", "File", "Host", "Incomplete", "Listener", "Options",
    "Parcel", "Receiver", "Sender", "Stream", "Ticker", "TooLong", "WorkerLoop", "adopt_datagrams", "adopt_file",
    "adopt_listener", "adopt_stream", "bind", "channel", "connect", "connect_datagrams", "current", "every", "hosted",
    "inherited_listeners", "listen", "new_event_loop", "offload", "oneshot", "open_file", "run_async", "sleep",
    "sleep_until", "spawn",
]  # fmt: skip
