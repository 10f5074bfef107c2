"""Coracle in an event loop.

    import asyncio
    import coracle.aio

    async def main():
        async with await coracle.aio.open("/var/lib/app/containers") as engine:
            [image] = await engine.images.load("busybox.tar")
            container = await engine.containers.create(image, ["sh", "-c", "cat; echo done >&2"], stdin=True)
            async with await container.start_attached() as session:
                stdout, stderr = await session.communicate(b"hello\\n")
            print(await container.wait(), stdout, stderr)
            await container.remove()

    asyncio.run(main())

The methods are those of `coracle`, as coroutines. A call that may last is begun, and the loop watches its descriptor: no thread
waits, and thousands may be under way. A cancelled task cancels its call, and goes on when the call has ended; so
`asyncio.timeout` works. `timeout=` in seconds raises `coracle.Timeout`, which is a `TimeoutError`. Calls that wait for the disk
alone run on threads of the loop's executor, as do calls with `progress=`.
"""

from ._begun import Progress, Records
from .containers import Container, Containers, Exec
from .engine import Engine, Response, Server, host_report, open
from .images import Images
from .rest import Networks, Plugins, Volumes
from .sources import Archive
from .streams import Body, Events, Logs, Pending, Samples, Session

__all__ = [
    "Archive",
    "Body",
    "Container",
    "Containers",
    "Engine",
    "Events",
    "Exec",
    "Images",
    "Logs",
    "Networks",
    "Pending",
    "Plugins",
    "Progress",
    "Records",
    "Response",
    "Samples",
    "Server",
    "Session",
    "Volumes",
    "host_report",
    "open",
]
