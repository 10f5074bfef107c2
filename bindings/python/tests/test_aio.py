"""What is particular to coracle.aio: cancelled tasks, deadlines, many calls at once, closed handles, no thread that waits.

Environment: as of test_main_job.py. Needs root.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import unittest
from pathlib import Path

import coracle
import coracle.aio as aio

IMAGE = os.environ.get("CORACLE_TEST_IMAGE", "busybox.tar")
# How long to wait, in seconds, for something that comes: a disk may stand still for more than a minute.
LONG = 300
SLEEP = ["sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"]


class Case(unittest.IsolatedAsyncioTestCase):
    """An engine on a root of its own, with the image."""

    async def asyncSetUp(self) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="coracle-aio-"))
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.engine = await aio.open(self.dir / "root", run_dir=self.dir / "run", durability="off")
        [self.image] = await self.engine.images.load(IMAGE)

    async def asyncTearDown(self) -> None:
        for found in await self.engine.containers.list(all=True):
            await (await self.engine.containers.get(found["Id"])).remove(force=True)
        self.engine.close()

    async def running(self) -> aio.Container:
        container = await self.engine.containers.create(self.image, SLEEP)
        async with await container.start_attached() as session:
            assert session.stdout is not None
            self.assertEqual(await session.stdout.readline(), b"ready\n")
        return container


async def _all(records: aio.Records) -> "list[dict[str, object]]":
    return [record async for record in records]


class Cancelled(Case):
    async def test_a_cancelled_task_ends_its_call_and_the_container_runs_on(self) -> None:
        container = await self.running()
        task = asyncio.create_task(container.wait())
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, LONG)
        self.assertTrue((await container.inspect())["State"]["Running"])

    async def test_the_deadlines_of_asyncio_and_of_the_library_are_one_exception(self) -> None:
        container = await self.running()
        with self.assertRaises(TimeoutError):
            await asyncio.wait_for(container.wait(), 0.05)
        with self.assertRaises(coracle.Timeout) as caught:
            await container.wait(timeout=0.05)
        self.assertIsInstance(caught.exception, TimeoutError)
        self.assertEqual(caught.exception.kind, "TIMEOUT")
        async with await container.exec(["sleep", "1000"]) as session:
            with self.assertRaises(coracle.Timeout):
                await session.communicate(timeout=0.05)

    async def test_a_cancelled_read_loses_no_byte(self) -> None:
        container = await self.engine.containers.create(self.image, ["sh", "-c", "read go; echo one"], stdin=True)
        async with await container.start_attached() as session:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(session.read(), 0.05)
            await session.write(b"go\n")
            self.assertEqual(await session.read(), ("stdout", b"one\n"))
            self.assertIsNone(await session.read())
            self.assertEqual(await session.wait(), 0)

    async def test_a_cancelled_end_of_the_input_ends_it_nevertheless(self) -> None:
        container = await self.engine.containers.create(self.image, ["sh", "-c", "sleep 1000"], stdin=True)
        async with await container.start_attached() as session:
            writer = session.stdin
            assert writer is not None
            writer.write(bytes(64 << 20))
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(session.close_stdin(), 0.05)
            self.assertTrue(writer.transport.is_closing())

    async def test_a_cancelled_load_ends_though_its_source_never_does(self) -> None:
        async def endless():  # type: ignore[no-untyped-def]
            yield bytes(512)
            await asyncio.sleep(LONG)

        task = asyncio.create_task(self.engine.images.load(endless()))
        await asyncio.sleep(0.1)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await asyncio.wait_for(task, LONG)


class Many(Case):
    async def test_many_wait_at_once_and_no_thread_waits(self) -> None:
        containers = [await self.engine.containers.create(self.image, ["sh", "-c", f"read x; exit {n}"], stdin=True) for n in range(12)]
        sessions = [await container.start_attached() for container in containers]
        waits = [asyncio.create_task(container.wait()) for container in containers for _ in range(10)]
        await asyncio.sleep(0)
        # The executor's threads are idle ones of calls that wait for the disk.
        waiting = [thread for thread in threading.enumerate() if "asyncio" not in thread.name]
        self.assertEqual(waiting, [threading.main_thread()])
        for session in sessions:
            await session.write(b"\n")
        codes = await asyncio.gather(*waits)
        self.assertEqual(codes, [n for n in range(12) for _ in range(10)])
        for session in sessions:
            session.close()

    async def test_no_descriptor_is_lost(self) -> None:
        container = await self.running()

        async def round() -> None:
            self.assertEqual((await container.exec_run(["cat"], input=b"x")).stdout, b"x")
            self.assertEqual([line.text async for line in await container.logs()], ["ready"])
            (await self.engine.events()).close()
            with self.assertRaises(coracle.Timeout):
                await container.wait(timeout=0)
            with self.assertRaises(coracle.Error):
                await self.engine.images.load(b"none")

        await round()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            await round()

        async def fewer() -> None:
            # Transports and threads of the library close theirs a moment later.
            while len(os.listdir("/proc/self/fd")) > before:
                await asyncio.sleep(0.05)

        await asyncio.wait_for(fewer(), LONG)


class Streams(Case):
    async def test_events_logs_and_samples_are_asynchronous_iterators(self) -> None:
        async with await self.engine.events(filters={"type": ["container"]}) as events:
            container = await self.running()
            self.assertEqual([(await events.__anext__())["Action"] for _ in range(3)], ["create", "attach", "start"])
            self.assertIsNone(await events.next(0))
        async with await container.samples() as samples:
            two = [(await samples.__anext__())["pids_stats"]["current"] for _ in range(2)]
        self.assertTrue(all(number > 0 for number in two), two)
        async with await container.logs(follow=True) as logs:
            self.assertEqual((await logs.__anext__()).text, "ready")
            ended = asyncio.create_task(logs.__anext__())
            await container.kill()
            with self.assertRaises(StopAsyncIteration):
                await asyncio.wait_for(ended, LONG)

    async def test_progress_is_an_asynchronous_iterator_and_its_exceptions_end_the_call(self) -> None:
        records = aio.Records()
        load = asyncio.create_task(self.engine.images.load(IMAGE, progress=records))
        self.assertGreater(len([record async for record in records]), 0)
        self.assertEqual(await load, [self.image])

        def refuse(_record: "dict[str, object]") -> None:
            raise RuntimeError("stop")

        with self.assertRaisesRegex(RuntimeError, "stop"):
            await self.engine.images.load(IMAGE, progress=refuse)

    async def test_records_end_though_the_call_never_began_or_failed(self) -> None:
        for begun in (False, True):
            records = aio.Records()
            load = asyncio.create_task(self.engine.images.load("/dev/null", progress=records))
            if begun:
                await asyncio.wait({load}, timeout=LONG)
            load.cancel()
            given = asyncio.ensure_future(_all(records))
            await asyncio.wait({given}, timeout=LONG)
            self.assertTrue(given.done())
            with self.assertRaises(coracle.Error if begun else asyncio.CancelledError):
                await load
        awaited = aio.Records()
        self.assertEqual(await self.engine.images.load(IMAGE, progress=awaited), [self.image])
        self.assertGreater(len(await asyncio.wait_for(_all(awaited), LONG)), 0)

    async def test_records_can_be_used_for_a_second_call(self) -> None:
        records = aio.Records()
        for _ in range(2):
            load = asyncio.create_task(self.engine.images.load(IMAGE, progress=records))
            self.assertGreater(len(await asyncio.wait_for(_all(records), LONG)), 0)
            self.assertEqual(await load, [self.image])

    async def test_an_archive_comes_by_an_iterable_and_its_exception_comes_out(self) -> None:
        async def pieces():  # type: ignore[no-untyped-def]
            with open(IMAGE, "rb") as file:
                while piece := file.read(100_000):
                    yield piece

        self.assertEqual(await self.engine.images.load(pieces()), [self.image])

        async def broken():  # type: ignore[no-untyped-def]
            yield b"x"
            raise RuntimeError("the source is broken")

        with self.assertRaisesRegex(RuntimeError, "broken"):
            await self.engine.images.load(broken())

    async def test_a_wait_that_is_begun_misses_no_end(self) -> None:
        container = await self.engine.containers.create(self.image, ["sh", "-c", "exit 7"])
        async with container.begin_wait("next-exit") as pending:
            with self.assertRaises(coracle.Timeout):
                await pending.result(timeout=0.05)
            await container.start()
            self.assertEqual(await pending.result(LONG), 7)


class Closed(Case):
    async def test_a_handle_that_is_closed_ends_those_that_wait_on_it(self) -> None:
        container = await self.running()
        events, logs = await self.engine.events(filters={"type": ["image"]}), await container.logs(follow=True, tail=0)
        pending = container.begin_wait()
        waits = [asyncio.ensure_future(one) for one in (events.__anext__(), logs.__anext__(), pending.result())]
        await asyncio.sleep(0.05)
        for handle in (events, logs, pending):
            handle.close()
        for result in await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), LONG):
            self.assertIsInstance(result, coracle.Misuse)
        for call in (events.__anext__, logs.__anext__, pending.result):
            with self.assertRaises(coracle.Misuse):
                await call()

    async def test_a_second_task_on_one_stream_is_misuse(self) -> None:
        container = await self.running()
        async with await container.logs(follow=True, tail=0) as logs:
            first = asyncio.create_task(logs.__anext__())
            await asyncio.sleep(0)
            with self.assertRaises(coracle.Misuse):
                await logs.__anext__()
            first.cancel()

    async def test_a_closed_engine_is_an_error(self) -> None:
        engine = await aio.open(self.dir / "root", run_dir=self.dir / "run")
        engine.close()
        with self.assertRaises(coracle.Misuse):
            await engine.info()
        with self.assertRaises(coracle.Misuse):
            await engine.containers.list()


if __name__ == "__main__":
    unittest.main()
