# SPDX-License-Identifier: MIT OR Apache-2.0
"""A file server over objects: `files.py HOST:PORT DIRECTORY [--driver D] [--buffers N] [--events N]`.

A client sends `GET path` and a newline, as often as it likes; the answer is the length, a newline and the bytes, or
`-1`, a message and a newline. A file goes out in pieces, each sent from the memory it was read into, the next one read
when the last has left: a connection holds one piece, however large the file.
"""

import posixpath

import quoit
import service

PIECE = 256 * 1024
LINE_MAX = 4096
QUEUE_MAX = 64 * 1024


class Session:
    """One connection: its requests, answered one after the other."""

    def __init__(self, stream: quoit.Stream, files: "Files") -> None:
        self.stream = stream
        self.files = files
        self.queue = bytearray()
        self.busy = self.paused = self.ended = False
        self.file: quoit.File | None = None
        self.size = self.position = 0

    def next(self) -> None:
        """Starts the next request, if a whole one is there."""
        self.busy = False
        end = self.queue.find(b"\n")
        if end < 0:
            if len(self.queue) > LINE_MAX:
                self.stream.abort()
            elif self.ended:
                self.stream.close()
            return
        line = bytes(self.queue[:end])
        del self.queue[: end + 1]
        if self.paused and len(self.queue) < QUEUE_MAX:
            self.paused = False
            self.stream.resume()
        self.busy = True
        self.files.requests += 1
        path = line.removeprefix(b"GET ")
        if path == line or path.startswith(b"/") or b".." in path.split(b"/"):
            self.refuse("not a request for a file here")
            return
        flags, directory = quoit.OPEN_READ, self.files.directory
        self.stream.worker.open(posixpath.normpath(path), flags, self.opened, directory=directory)

    def refuse(self, why: str) -> None:
        self.stream.send(f"-1 {why}\n".encode())
        self.finish()

    def opened(self, file: quoit.File | quoit.Error) -> None:
        if isinstance(file, quoit.Error):
            self.refuse(file.message)
        elif self.stream.closing:
            file.close()
        else:
            self.file = file
            self.begin()

    def begin(self) -> None:
        assert self.file is not None
        self.position = 0
        try:
            self.size = self.file.size
        except quoit.Error:
            self.refuse("not a file")
            return
        if self.size:
            self.read()
        else:
            self.stream.send(b"0\n")
            self.finish()

    def read(self) -> None:
        assert self.file is not None
        self.file.read(self.position, min(PIECE, self.size - self.position), self.piece)

    def piece(self, data: quoit.Lent | quoit.Error) -> None:
        if self.stream.closing:
            return
        if isinstance(data, quoit.Error):
            if self.position == 0:
                self.refuse(data.message)
            else:
                self.stream.abort(data)
            return
        if len(data) == 0:
            # The file shrank after its length was told: no way to answer that but to end.
            self.stream.abort()
            return
        if self.position == 0:
            self.stream.send(b"%d\n" % self.size)
        self.stream.send(data, self.sent)

    def sent(self, count: int | quoit.Error) -> None:
        if self.stream.closing:
            return
        if isinstance(count, quoit.Error):
            self.stream.abort(count)
            return
        self.position += count
        if self.position < self.size:
            self.read()
        else:
            self.finish()

    def finish(self) -> None:
        self.drop()
        self.next()

    def drop(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class Files(quoit.Handler):
    """The streams of the listener."""

    def __init__(self, directory: quoit.File) -> None:
        self.directory = directory
        self.requests = 0

    def on_open(self, stream: quoit.Stream) -> None:
        stream.state = Session(stream, self)

    def on_data(self, stream: quoit.Stream, data: bytes) -> None:
        session = stream.state
        session.queue += data
        if len(session.queue) > QUEUE_MAX and not session.paused:
            session.paused = True
            stream.pause()
        if not session.busy:
            session.next()

    def on_eof(self, stream: quoit.Stream) -> None:
        stream.state.ended = True
        if not stream.state.busy:
            stream.state.next()

    def on_close(self, stream: quoit.Stream, error: quoit.Error | None) -> None:
        stream.state.drop()


served: list[Files] = []


def start(worker: quoit.Worker) -> None:
    def opened(directory: quoit.File | quoit.Error) -> None:
        if isinstance(directory, quoit.Error):
            raise directory
        served.append(Files(directory))
        worker.listen(
            args.address,
            served[0],
            lambda listener: print("listening on", listener.address, flush=True),
        )

    worker.open(args.directory, quoit.OPEN_READ | quoit.OPEN_DIRECTORY, opened)


if __name__ == "__main__":
    args = service.arguments("address", "directory")
    service.serve(
        args,
        start,
        lambda: {"handler_messages": sum(files.requests for files in served)},
    )
