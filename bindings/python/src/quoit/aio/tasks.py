# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tasks that nobody awaits."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_tasks: set[asyncio.Task[Any]] = set()


def spawn(coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Runs a coroutine as a task that is kept alive until it ends; what it raises goes to the loop's exception handler.

    It may be awaited or cancelled like any task. For tasks that belong together use asyncio.TaskGroup.
    """
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _tasks.add(task)
    task.add_done_callback(_ended)
    return task


def _ended(task: "asyncio.Task[Any]") -> None:
    _tasks.discard(task)
    if task.cancelled():
        return
    error = task.exception()
    if error is not None:
        task.get_loop().call_exception_handler(
            {"message": f"quoit: the task {task.get_name()} raised", "exception": error, "task": task}
        )
