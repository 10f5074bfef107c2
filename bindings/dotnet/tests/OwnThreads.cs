using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle.Tests
{
    internal static partial class Own
    {
        private const int OpenFiles = 7;
        private const int CrowdOfTasks = 60;
        private const int CrowdOfBoxes = 10;
        private const int StopsOfEach = 12;

        [StructLayout(LayoutKind.Sequential)]
        private struct Limit
        {
            internal ulong Soft;
            internal ulong Hard;
        }

        [DllImport("libc")]
        private static extern int getrlimit(int resource, out Limit limit);

        [DllImport("libc")]
        private static extern int setrlimit(int resource, ref Limit limit);

        /// <summary>Runs work while no thread of the pool is free, and none can be added.</summary>
        private static void WithoutPool(Action work)
        {
            ThreadPool.GetMaxThreads(out int threads, out int completions);
            ThreadPool.GetMinThreads(out int fewest, out int fewestCompletions);
            int few = Environment.ProcessorCount;
            // Not disposed: work that the pool begins late still looks at it.
            var over = new ManualResetEventSlim();
            Same(true, ThreadPool.SetMinThreads(few, fewestCompletions) && ThreadPool.SetMaxThreads(few, completions));
            try
            {
                for (int at = 0; at < 4 * few; at++)
                {
                    ThreadPool.QueueUserWorkItem(state => over.Wait());
                }
                Soon("a pool without a free thread", () =>
                {
                    ThreadPool.GetAvailableThreads(out int free, out int freeCompletions);
                    return free == 0;
                });
                work();
            }
            finally
            {
                over.Set();
                ThreadPool.SetMaxThreads(threads, completions);
                ThreadPool.SetMinThreads(fewest, fewestCompletions);
            }
        }

        private static void Blocking(Engine engine, string dir)
        {
            Container box = engine.Containers.Create(Shell("echo one; cat; exit 3"));
            using (Events events = engine.Events(new { filters = new { type = new[] { "container" } } }))
            using (Session session = box.StartAttached())
            {
                Same("start", events.Within(Program.Long).First(one => one.Action == "start").Action);
                var first = new byte[4];
                Same(4, session.Stdout.Read(first, 0, 4));
                Raises<IOException>(() => session.Within(Short).Stdout.Read(first, 0, 4));
                Raises<DeadlineException>(() => session.Within(Short).Wait());
                Raises<DeadlineException>(() => events.Within(Short).Count());
                using (Descriptor pidfd = box.Pidfd())
                {
                    Same("two", session.Communicate("two").Text);
                    pidfd.WaitReadable();
                }
                Same((3, 3), (session.Wait(), box.Wait()));
                using (Stream log = engine.Connect().Request("GET", "/v1.24/containers/" + box.Id + "/logs?stdout=1").Body)
                {
                    var copy = new MemoryStream();
                    log.CopyTo(copy);
                    Same(true, copy.Length > 0);
                }
            }
            Container other = Running(engine);
            Same("run\n", other.Run("echo", "run").Text);
            Exec exec = other.Exec(new { Cmd = new[] { "sh", "-c", "exit 4" } });
            exec.Start();
            Same(4, exec.Wait());
            Raises<CancelledException>(() =>
            {
                Session waited = other.Attach();
                Task waiter = OnThread(() => waited.Wait());
                Thread.Sleep(50);
                waited.Dispose();
                Ended(waiter);
            });
        }

        private static void Interrupted(Action wait)
        {
            Exception thrown = null;
            var thread = new Thread(() => thrown = Raises<Exception>(wait));
            thread.Start();
            Thread.Sleep(50);
            thread.Interrupt();
            Same(true, thread.Join(Program.Long));
            Same(typeof(ThreadInterruptedException), thrown.GetType());
        }

        private static async Task<byte[]> Bytes(Stream from)
        {
            using (from)
            {
                var made = new MemoryStream();
                await from.CopyToAsync(made);
                return made.ToArray();
            }
        }

        private static async Task Tasks(Engine engine)
        {
            Container box = Running(engine);
            Output output = await box.RunAsync(new[] { "sh", "-c", "echo o; echo e >&2; exit 3" });
            Same((3, "o\n", "e\n"), (output.Code, output.Text, output.ErrorText));
            Exception late = null;
            try
            {
                await box.RunAsync(new[] { "sleep", "1000" }, new CancellationTokenSource(200).Token);
            }
            catch (OperationCanceledException cancelled)
            {
                late = cancelled;
            }
            Same(true, late != null);
            await box.PauseAsync();
            Same(true, box.Inspect().Is("State.Paused"));
            await box.UnpauseAsync();
            using (Session session = await box.AttachAsync(new { stdout = true }))
            {
                Same((true, false), (session.Has(Channel.Stdout), session.Has(Channel.Stdin)));
            }
            using (Archive archive = await box.GetArchiveAsync("/etc/passwd"))
            {
                Same("passwd", archive.Stat.Text("name"));
                Same(true, (await Bytes(archive.Body)).Length > 512);
            }
            Same(true, (await Bytes(await box.ExportAsync())).Length > 512);
            Same(true, (await Bytes(await engine.Images.SaveAsync("docker", new[] { "busybox" }))).Length > 512);
            Same(true, (await engine.DiskUsageAsync()).Documents("Images").Count == 1);
            Same(0, (await engine.SweepAsync()).Count);
            Same(0L, (await engine.Images.PruneAsync()).Number("SpaceReclaimed"));
            await engine.Images.PruneCachesAsync();
            await box.RemoveAsync(Remove.Force);
            Same(true, (await engine.Images.RemoveAsync("busybox")).Count > 0);
        }

        private static void Pool()
        {
            Tests["calls that block need no thread of the pool"] = (engine, dir) =>
                WithoutPool(() => Ended(OnThread(() => Blocking(engine, dir))));
            Tests["tasks take no thread each, and end when they are cancelled"] = (engine, dir) =>
            {
                object lasting = Shell("trap '' TERM; echo ready; while :; do sleep 0.05; done");
                Container box = engine.Containers.Create(lasting);
                // A monitor serves a bounded number of clients.
                Container[] boxes = Enumerable.Range(0, CrowdOfBoxes).Select(one => engine.Containers.Create(lasting)).ToArray();
                Array.ForEach(boxes, one => Same("ready\n", one.StartAttached().Within(Program.Long).Read().Text));
                var sessions = new List<Session> { box.StartAttached() };
                // A session that attaches before this output gets it, too.
                Same("ready\n", sessions[0].Within(Program.Long).Read().Text);
                sessions.AddRange(Enumerable.Range(1, 7).Select(one => box.Attach()));
                Records<LogLine>[] logs = Enumerable.Range(0, CrowdOfTasks).Select(one => box.Logs(Followed)).ToArray();
                Events[] events = Enumerable.Range(0, CrowdOfTasks).Select(one => Silence(engine)).ToArray();
                Events kills = engine.Events(new { filters = new { @event = new[] { "kill" } } });
                var source = new CancellationTokenSource();
                int before = Process.GetCurrentProcess().Threads.Count;
                var all = new List<Task>();
                all.AddRange(sessions.Select(one => one.ReadAsync(source.Token)));
                all.AddRange(sessions.Select(one => one.WriteAsync(new byte[4 << 20], source.Token)));
                all.AddRange(logs.Select(one => one.NextAsync(source.Token)));
                all.AddRange(events.Select(one => one.NextAsync(source.Token)));
                all.AddRange(boxes.SelectMany(one => Enumerable.Repeat(one, StopsOfEach)).Select(one => one.StopAsync(TimeSpan.FromMilliseconds(-1), source.Token)));
                // Each stop has sent its signal, and waits.
                Same(CrowdOfBoxes * StopsOfEach, kills.Within(Program.Long).Take(CrowdOfBoxes * StopsOfEach).Count());
                Thread.Sleep(300);
                int now = Process.GetCurrentProcess().Threads.Count;
                Same(0, all.Count(one => one.IsCompleted));
                // The library has at most 16, the pool some that end their work.
                Same("few more threads", now < before + 90 ? "few more threads" : now - before + " more threads");
                source.Cancel();
                Func<string> running = () => string.Join(",", Enumerable.Range(0, all.Count).Where(at => !all[at].IsCompleted));
                try
                {
                    Soon("the end of every task", () => running().Length == 0);
                }
                catch (Exception late)
                {
                    throw new Exception("tasks run on: " + running(), late);
                }
                all.ForEach(one => Raises<OperationCanceledException>(() => Ended(one)));
                Same(all.Count, all.Count(one => one.IsCanceled));
                foreach (IDisposable one in sessions.Concat<IDisposable>(logs).Concat(events).Append(kills))
                {
                    one.Dispose();
                }
                Same(true, box.Inspect().Is("State.Running"));
            };
            Tests["a call that is cancelled while the library begins it ends"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"));
                Same("ready\n", box.StartAttached().Within(Program.Long).Read().Text);
                for (int at = 0; at < 60; at++)
                {
                    var source = new CancellationTokenSource();
                    Container bounded = box.Within(at % 2 == 0 ? Timeout.InfiniteTimeSpan : TimeSpan.FromMilliseconds(1 + at % 7));
                    Task[] all = Enumerable.Range(0, 8).Select(one => (Task)bounded.StopAsync(TimeSpan.FromMilliseconds(-1), source.Token)).ToArray();
                    Thread.Sleep(at % 5);
                    if (at % 2 == 0)
                    {
                        source.Cancel();
                    }
                    foreach (Task one in all)
                    {
                        Exception thrown = Raises<Exception>(() => Ended(one));
                        Same(at % 2 == 0 ? typeof(OperationCanceledException) : typeof(DeadlineException), thrown.GetType());
                    }
                }
                Same(true, box.Inspect().Is("State.Running"));
            };
            Tests["an interrupted thread leaves its wait, and nothing of it stays"] = (engine, dir) =>
            {
                Container box = Running(engine);
                Session session = box.Attach();
                Stream stdout = session.Stdout;
                var waits = new Action[]
                {
                    () => box.Wait(), () => session.Wait(), () => stdout.Read(new byte[1], 0, 1), () => Silence(engine).Next(),
                };
                // The first round also opens whatever the runtime and the engine open once.
                int before = int.MaxValue;
                for (int round = 0; round < 2; round++)
                {
                    Array.ForEach(waits, Interrupted);
                    Soon("the end of whatever the waits had open", () =>
                    {
                        Collect();
                        return Descriptors <= before;
                    });
                    before = Descriptors + (IsMono ? 20 : 0);
                }
                session.Dispose();
            };
            Tests["tasks of calls that give streams, documents and sessions"] = (engine, dir) => Ended(Tasks(engine));
            Tests["pieces of both outputs come to a task, until both have ended"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("echo err >&2; exec 2>&-; read x; echo out $x; exec >&-; read y; exit 0"));
                using (Session session = box.StartAttached())
                {
                    Piece piece = Ended(session.ReadAsync());
                    Same((Channel.Stderr, "err\n"), (piece.Channel, piece.Text));
                    Task<Piece> next = session.ReadAsync();
                    Thread.Sleep(50);
                    Same(false, next.IsCompleted);
                    Ended(session.WriteAsync(new byte[] { (byte)'a', (byte)'\n' }));
                    piece = Ended(next);
                    Same((Channel.Stdout, "out a\n"), (piece.Channel, piece.Text));
                    Ended(session.WriteAsync(new byte[] { (byte)'b', (byte)'\n' }));
                    Same(null, Ended(session.ReadAsync()));
                    Same(null, session.Read());
                }
            };
            Tests["more waits for one descriptor than a process may have open"] = (engine, dir) =>
            {
                Container box = Running(engine);
                using (Descriptor pidfd = box.Pidfd())
                {
                    Raises<DeadlineException>(() => Ended(box.Within(Short).WaitAsync()));
                    Same(0, getrlimit(OpenFiles, out Limit limit));
                    Limit few = limit;
                    few.Soft = 300;
                    Same(0, setrlimit(OpenFiles, ref few));
                    try
                    {
                        Task[] all = Enumerable.Range(0, 600).Select(one => pidfd.WaitReadableAsync()).ToArray();
                        Task<int> exit = box.WaitAsync();
                        box.Kill();
                        Array.ForEach(all, Ended);
                        Same(137, Ended(exit));
                    }
                    finally
                    {
                        setrlimit(OpenFiles, ref limit);
                    }
                }
            };
            Tests["a deadline holds for a reader that waits for another one, too"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("read x; echo $x"));
                using (Session session = box.StartAttached())
                {
                    var one = new byte[1];
                    Task<int> first = session.Stdout.ReadAsync(one, 0, 1);
                    Stream stdout = session.Within(Short).Stdout;
                    Raises<IOException>(() => Ended(stdout.ReadAsync(new byte[1], 0, 1)));
                    Same(typeof(DeadlineException), Raises<IOException>(() => stdout.Read(new byte[1], 0, 1)).InnerException.GetType());
                    Raises<OperationCanceledException>(
                        () => Ended(session.Stdout.ReadAsync(new byte[1], 0, 1, new CancellationTokenSource(50).Token)));
                    Same(false, first.IsCompleted);
                    session.Write("y\n");
                    Same((1, (byte)'y'), (Ended(first), one[0]));
                }
            };
            Tests["streams of one output read in turn, and each is cancelled by itself"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("while read x; do echo -n y; done"));
                using (Session session = box.StartAttached())
                {
                    for (int at = 0; at < 100; at++)
                    {
                        var source = new CancellationTokenSource();
                        Task<int>[] all = Enumerable.Range(0, 16).Select(one => session.Stdout.ReadAsync(new byte[1], 0, 1, source.Token)).ToArray();
                        session.Write("x\n");
                        Same(1, Ended(Task.WhenAny(all)).Result);
                        source.Cancel();
                        foreach (Task<int> late in all.Where(one => one.Status != TaskStatus.RanToCompletion))
                        {
                            Raises<OperationCanceledException>(() => Ended(late));
                        }
                    }
                }
            };
            Tests["a deadline holds for the whole of a write"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("while :; do head -c 50000 >/dev/null; sleep 0.05; done"));
                using (Session session = box.StartAttached())
                {
                    Stopwatch passed = Stopwatch.StartNew();
                    // The process takes a megabyte a second.
                    Raises<DeadlineException>(() => session.Within(TimeSpan.FromSeconds(1)).Write(new byte[64 << 20]));
                    Raises<DeadlineException>(() => Ended(session.Within(TimeSpan.FromSeconds(1)).WriteAsync(new byte[64 << 20])));
                    Same(true, passed.Elapsed < TimeSpan.FromSeconds(30));
                }
            };
            Tests["a listener to progress bounds no wait, and hears a task's records"] = (engine, dir) =>
            {
                var records = new List<Progress>();
                Container box = engine.OnProgress(records.Add).Containers.Create(Shell("exit 2"));
                Ended(box.StartAsync());
                Same((2, 2), (box.Wait(), Ended(box.WaitAsync())));
                engine.Images.Remove("busybox", ImageRemove.Force);
                Ended(engine.Images.OnProgress(records.Add).LoadAsync(Archive));
                Same(true, records.Count > 0);
                var own = new InvalidOperationException("own");
                Same(own, Raises<Exception>(() => Ended(engine.Images.OnProgress(record => throw own).LoadAsync(Archive))));
            };
        }
    }
}
