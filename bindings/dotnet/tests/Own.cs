using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle.Tests
{
    /// <summary>
    /// The tests of facts that are particular to .NET. Environment: CORACLE_LIBRARY, CORACLE_TEST_IMAGE, CORACLE_LIVES (how many lives the test of leaks makes).
    /// </summary>
    internal static partial class Own
    {
        private static readonly TimeSpan Short = TimeSpan.FromMilliseconds(100);
        private static readonly Dictionary<string, Action<Engine, string>> Tests = new Dictionary<string, Action<Engine, string>>();

        static Own()
        {
            Errors();
            Tasks();
            Deadlines();
            Waits();
            Handles();
            ClosedMeanwhile();
            Shared();
            Readers();
            Collected();
            Unkept();
            Streams();
            Processes();
            Connections();
            Callers();
            Crowd();
            Kept();
            Disposed();
            Pool();
            Values();
            Leaks();
        }

        // ---- parts of tests

        internal static void Same<T>(T expected, T got)
        {
            if (!EqualityComparer<T>.Default.Equals(expected, got))
            {
                throw new Exception("wanted " + expected + ", got " + got);
            }
        }

        private static E Raises<E>(Action call) where E : Exception
        {
            try
            {
                call();
            }
            catch (Exception thrown)
            {
                if (thrown is E wanted)
                {
                    return wanted;
                }
                throw new Exception("wanted " + typeof(E).Name + ", got " + thrown, thrown);
            }
            throw new Exception("wanted " + typeof(E).Name + ", and nothing was thrown");
        }

        /// <summary>The result of a task, or its own exception.</summary>
        private static T Ended<T>(Task<T> task)
        {
            Ended((Task)task);
            return task.Result;
        }

        private static void Ended(Task task)
        {
            if (!((IAsyncResult)task).AsyncWaitHandle.WaitOne(Program.Long))
            {
                throw new Exception("a task never ended");
            }
            task.GetAwaiter().GetResult();
        }

        private static void Soon(string text, Func<bool> there)
        {
            Stopwatch passed = Stopwatch.StartNew();
            while (!there())
            {
                if (passed.Elapsed > Program.Long)
                {
                    throw new Exception("it never came: " + text);
                }
                Thread.Sleep(10);
            }
        }

        private static string Archive => Environment.GetEnvironmentVariable("CORACLE_TEST_IMAGE");

        private static object Shell(string script) =>
            new
            {
                Image = "busybox",
                Cmd = new[] { "sh", "-c", script },
                OpenStdin = true,
                StdinOnce = true,
                HostConfig = new { NetworkMode = "none" },
            };

        /// <summary>A container that runs until it is killed.</summary>
        private static Container Running(Engine engine)
        {
            Container made = engine.Containers.Create(Shell("echo ready; exec sleep 1000"));
            using (Session session = made.StartAttached())
            {
                Same("ready\n", session.Within(Program.Long).Read().Text);
            }
            return made;
        }

        private static int Descriptors => Directory.GetFiles("/proc/self/fd").Length;

        /// <summary>The events that nobody makes.</summary>
        private static Events Silence(Engine engine) => engine.Events(new { filters = new { type = new[] { "volume" } } });

        private static readonly object Followed = new { follow = true, tail = 0 };

        private static Task OnThread(Action work) => Task.Factory.StartNew(work, TaskCreationOptions.LongRunning);

        /// <summary>A call that no local variable outlives.</summary>
        private static T Apart<T>(Func<T> work) => work();

        internal static bool All(string words)
        {
            int passed = 0, failed = 0;
            foreach (KeyValuePair<string, Action<Engine, string>> one in Tests.Where(test => test.Key.Contains(words)))
            {
                string dir = Program.Directory("own-");
                using (Engine engine = Program.Open(dir))
                {
                    engine.Images.Load(Archive);
                    try
                    {
                        one.Value(engine, dir);
                        passed++;
                    }
                    catch (Exception thrown)
                    {
                        failed++;
                        Console.WriteLine("failed: " + one.Key + "\n" + thrown);
                    }
                    foreach (Document each in engine.Containers.List(new { all = true }))
                    {
                        engine.Container(each.Text("Id")).Remove(Remove.Force);
                    }
                }
                Directory.Delete(dir, true);
            }
            Console.WriteLine(passed + " passed, " + failed + " failed");
            return failed == 0 && passed != 0;
        }

        // ---- tests

        private sealed class Unreadable
        {
            public string Image => throw new NotSupportedException("never");
        }

        private static void Errors()
        {
            Tests["errors have a class, a code, a status and the field"] = (engine, dir) =>
            {
                NotFoundException gone = Raises<NotFoundException>(() => engine.Container("nobody").Inspect());
                Same((Code.NotFound, 404, 0), (gone.Code, gone.Status, gone.Errno));
                CoracleException wrong = Raises<InvalidException>(
                    () => engine.Containers.Create(new { Image = "busybox", HostConfig = new { Memory = "lots" } }));
                Same("HostConfig.Memory", wrong.Field);
            };
            Tests["values that are no documents are errors, and none is a crash"] = (engine, dir) =>
            {
                var endless = new Dictionary<string, object>();
                endless["Labels"] = endless;
                var wrong = new object[]
                {
                    "a text", "", "{", 5, new[] { 1, 2 }, new { Image = double.NaN }, endless, new Unreadable(), new { Image = typeof(int) },
                    new { Image = (Action)Errors }, new { Image = new IntPtr(3) }, DateTime.Now, new object(),
                };
                foreach (object one in wrong)
                {
                    Raises<CoracleException>(() => engine.Containers.Create(one));
                }
                Raises<InvalidException>(() => engine.Containers.Create(null));
                Raises<InvalidException>(() => engine.Container(null).Inspect());
                Raises<InvalidException>(() => engine.Container("a\0b").Inspect());
                Raises<InvalidException>(() => engine.Images.Load((Stream)null));
                Raises<InvalidException>(() => engine.Plugins.Enable("x", TimeSpan.FromSeconds(-1)));
                Raises<FileNotFoundException>(() => engine.Images.Load(dir + "/nothing.tar"));
                Raises<FileNotFoundException>(() => engine.Images.BuildDirectory(dir + "/nothing", null));
                Raises<FormatException>(() => Document.Parse("{\"a\":"));
                Raises<FormatException>(() => Document.Parse(new string('[', 100000)));
            };
            Tests["documents come back as they went in"] = (engine, dir) =>
            {
                const string Text = "größe 大きい \ud83c\udf0d \"quoted\" \\ back\nline\u0001";
                Container box = engine.Containers.Create(
                    new { Image = "busybox", Labels = new Dictionary<string, string> { ["a.b"] = Text }, HostConfig = new { NetworkMode = "none", Memory = 1L << 33 } });
                Document found = box.Inspect();
                Same(Text, found.Map("Config.Labels")["a.b"]);
                Same((1L << 33, "created", false), (found.Number("HostConfig.Memory"), found.Text("State.Status"), found.Is("State.Running")));
                Same(box.Id, Document.Parse(found.ToString()).Text("Id"));
                Raises<InvalidCastException>(() => found.Text("State"));
            };
        }

        private static void Tasks()
        {
            Tests["a token that is cancelled ends its call, and the container runs on"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"));
                using (Session session = box.StartAttached())
                {
                    Same("ready\n", session.Within(Program.Long).Read().Text);
                }
                Session reader = box.Attach();
                Records<LogLine> logs = box.Logs(Followed);
                Events events = Silence(engine);
                var calls = new Func<CancellationToken, Task>[]
                {
                    token => box.StopAsync(TimeSpan.FromMilliseconds(-1), token), token => box.WaitAsync(Condition.NotRunning, token),
                    token => reader.ReadAsync(token), token => logs.NextAsync(token), token => events.NextAsync(token),
                };
                foreach (Func<CancellationToken, Task> call in calls)
                {
                    var source = new CancellationTokenSource();
                    Task task = call(source.Token);
                    Thread.Sleep(50);
                    Same(false, task.IsCompleted);
                    source.Cancel();
                    Raises<OperationCanceledException>(() => Ended(task));
                    Same(true, task.IsCanceled);
                    Raises<OperationCanceledException>(() => Ended(call(source.Token)));
                }
                Stream stdout = reader.Stdout;
                var late = new CancellationTokenSource(50);
                Raises<OperationCanceledException>(() => Ended(stdout.ReadAsync(new byte[9], 0, 9, late.Token)));
                Same(true, box.Inspect().Is("State.Running"));
                reader.Dispose();
                logs.Dispose();
                events.Dispose();
            };
        }

        private static void Deadlines()
        {
            Tests["deadlines fail tasks and calls"] = (engine, dir) =>
            {
                Container box = Running(engine);
                using (Session session = box.Attach())
                using (Events events = Silence(engine))
                using (Records<LogLine> logs = box.Logs(Followed))
                {
                    Raises<DeadlineException>(() => session.Within(Short).Read());
                    Raises<DeadlineException>(() => Ended(session.Within(Short).ReadAsync()));
                    Raises<DeadlineException>(() => events.Within(Short).Next());
                    Raises<DeadlineException>(() => logs.Within(Short).Next());
                    Raises<DeadlineException>(() => Ended(logs.Within(Short).NextAsync()));
                    Raises<DeadlineException>(() => box.Within(Short).Wait());
                    Raises<DeadlineException>(() => box.Within(TimeSpan.FromTicks(-5)).Wait());
                    Stream stdout = session.Within(Short).Stdout;
                    Same(typeof(DeadlineException), Raises<IOException>(() => stdout.Read(new byte[9], 0, 9)).InnerException.GetType());
                }
                Same(true, box.Within(TimeSpan.MaxValue).Start() == false);
            };
        }

        private static void Waits()
        {
            Tests["a hundred waits take no thread, and end together or when they are cancelled"] = (engine, dir) =>
            {
                Container box = Running(engine);
                int before = Process.GetCurrentProcess().Threads.Count;
                var source = new CancellationTokenSource();
                Task<int> first = box.WaitAsync(Condition.NotRunning, source.Token);
                List<Task<int>> all = Enumerable.Range(0, 99).Select(one => box.WaitAsync()).ToList();
                // The pool may have a few threads that still end their work; a thread for each wait would be a hundred.
                Same(true, Process.GetCurrentProcess().Threads.Count < before + 50);
                source.Cancel();
                Raises<OperationCanceledException>(() => Ended(first));
                box.Kill();
                all.ForEach(one => Same(137, Ended(one)));
            };
            Tests["a wait for something that is not there is a task that has failed"] = (engine, dir) =>
            {
                Task<int> none = engine.Container("nobody").WaitAsync();
                Raises<NotFoundException>(() => Ended(none));
                var source = new CancellationTokenSource();
                source.Cancel();
                Raises<OperationCanceledException>(() => engine.Containers.CancelledBy(source.Token).Create(Shell("true"), "never"));
                Raises<OperationCanceledException>(() => Ended(engine.Containers.CreateAsync(Shell("true"), "never", source.Token)));
                Raises<NotFoundException>(() => engine.Container("never").Inspect());
            };
            Tests["loops over events, lines and samples"] = (engine, dir) => Ended(Loops(engine));
        }

        private static async Task Loops(Engine engine)
        {
            using (Events events = engine.Events(new { filters = new { type = new[] { "container" } } }))
            {
                Container box = await engine.Containers.CreateAsync(Shell("echo one; echo two >&2; sleep 1000"));
                await box.StartAsync();
                IAsyncEnumerator<Event> each = events.GetAsyncEnumerator();
                while (await each.MoveNextAsync() && each.Current.Action != "start")
                {
                    Same(box.Id, each.Current.Id);
                }
                await each.DisposeAsync();
                Same("container", each.Current.Type);
                using (Records<LogLine> logs = box.Logs(new { follow = true }))
                {
                    var lines = new List<string>();
                    IAsyncEnumerator<LogLine> line = logs.GetAsyncEnumerator();
                    while (lines.Count < 2 && await line.MoveNextAsync())
                    {
                        lines.Add(line.Current.Channel + " " + line.Current.Text);
                    }
                    Same("Stderr two,Stdout one", string.Join(",", lines.OrderBy(text => text, StringComparer.Ordinal)));
                }
                using (Records<Document> samples = box.Samples())
                {
                    IAsyncEnumerator<Document> sample = samples.GetAsyncEnumerator();
                    Same(true, await sample.MoveNextAsync() && sample.Current.Number("pids_stats.current") > 0);
                }
                await box.RemoveAsync(Remove.Force);
            }
        }

        private static void Handles()
        {
            Tests["closed handles are misuse, and close again"] = (engine, dir) =>
            {
                Container box = Running(engine);
                Session session = box.Attach();
                Events events = engine.Events();
                Records<LogLine> logs = box.Logs();
                Descriptor pidfd = box.Pidfd();
                Engine other = engine.Again();
                Stream body = box.Export();
                foreach (IDisposable one in new IDisposable[] { session, events, logs, pidfd, other, body })
                {
                    one.Dispose();
                    one.Dispose();
                }
                var calls = new Action[]
                {
                    () => session.Read(), () => session.Write("x"), () => session.Wait(), () => session.Has(Channel.Stdout), () => events.Next(),
                    () => events.Poll(), () => logs.Next(), () => Ended(logs.NextAsync()), () => logs.Lost(), () => pidfd.WaitReadable(),
                    () => Same(true, pidfd.IsReadable), () => other.Info(), () => other.Again(), () => other.Containers.List(), () => other.Connect(),
                    () => other.HttpHandler(), () => session.Communicate("x"), () => Same(null, session.Stdout),
                };
                foreach (Action call in calls)
                {
                    Raises<MisuseException>(call);
                }
                Raises<IOException>(() => session.Stdin.Write(new byte[1], 0, 1));
                Raises<IOException>(() => body.Read(new byte[1], 0, 1));
                Raises<IOException>(() => Ended(body.ReadAsync(new byte[1], 0, 1)));
                Raises<ArgumentOutOfRangeException>(() => session.Stdin.Write(new byte[1], 0, 2));
            };
        }

        private static void ClosedMeanwhile()
        {
            Tests["a close from another thread ends the call"] = (engine, dir) =>
            {
                Container box = Running(engine);
                Session session = box.Attach(), taken = box.Attach(), asked = box.Attach(), held = box.Attach(), full = box.Attach();
                Events events = Silence(engine);
                Records<LogLine> logs = box.Logs(Followed), more = box.Logs(Followed);
                Stream stdout = taken.Stdout;
                Descriptor pidfd = box.Pidfd();
                var tasks = new[]
                {
                    OnThread(() => session.Read()), OnThread(() => events.Next()), OnThread(() => logs.Next()), OnThread(() => pidfd.WaitReadable()),
                    more.NextAsync(), asked.WaitAsync(), OnThread(() => held.Wait()), asked.ReadAsync(), full.WriteAsync(new byte[4 << 20]),
                };
                Task<int> reader = stdout.ReadAsync(new byte[9], 0, 9);
                Thread.Sleep(100);
                Same(false, tasks.Any(one => one.IsCompleted));
                foreach (IDisposable one in new IDisposable[] { session, events, logs, more, taken, pidfd, asked, held, full })
                {
                    one.Dispose();
                }
                foreach (Task one in tasks)
                {
                    Raises<CoracleException>(() => Ended(one));
                }
                Raises<CancelledException>(() => Ended(tasks[5]));
                Raises<CancelledException>(() => Ended(tasks[6]));
                Raises<IOException>(() => Ended(reader));
                Same(true, box.Inspect().Is("State.Running"));
            };
        }

        private static void Shared()
        {
            Tests["many threads use one engine, and one closes it meanwhile"] = (engine, dir) =>
            {
                Engine shared = engine.Again();
                Task[] workers = Enumerable.Range(0, 16).Select(one => OnThread(() =>
                {
                    for (;;)
                    {
                        shared.Containers.List(new { all = true });
                        shared.Images.Inspect("busybox");
                    }
                })).ToArray();
                Thread.Sleep(100);
                shared.Dispose();
                foreach (Task one in workers)
                {
                    Raises<MisuseException>(() => Ended(one));
                }
                Same(1, engine.Images.List().Count);
            };
        }

        private static void Readers()
        {
            Tests["a second reader of a session is misuse"] = (engine, dir) =>
            {
                using (Session session = Running(engine).Attach())
                {
                    var source = new CancellationTokenSource();
                    // Whichever of the two comes first is the reader.
                    Task first = OnThread(() =>
                    {
                        for (;;)
                        {
                            try
                            {
                                session.CancelledBy(source.Token).Read();
                            }
                            catch (MisuseException)
                            {
                                Thread.Sleep(1);
                            }
                        }
                    });
                    Soon("the first reader", () =>
                    {
                        try
                        {
                            session.Within(TimeSpan.FromMilliseconds(5)).Read();
                            return false;
                        }
                        catch (CoracleException failed)
                        {
                            return failed is MisuseException;
                        }
                    });
                    source.Cancel();
                    Raises<OperationCanceledException>(() => Ended(first));
                }
            };
        }

        private static void Forgetful(Engine engine, Container box)
        {
            for (int at = 0; at < 50; at++)
            {
                // Nothing keeps these but the call.
                engine.Again().Containers.List();
                Same("ready", box.Logs().Next().Text);
                engine.Events().Poll();
                // A container has a bounded number of clients.
                if (at % 12 == 0)
                {
                    Raises<DeadlineException>(() => box.Attach().Within(TimeSpan.FromMilliseconds(5)).Read());
                    Raises<DeadlineException>(() => Ended(box.Logs(Followed).Within(TimeSpan.FromMilliseconds(5)).NextAsync()));
                    Same(true, Apart(() => box.Attach().Stdout) != null);
                }
            }
        }

        private static void Collected()
        {
            Tests["the garbage collector comes during calls, and ends forgotten handles"] = (engine, dir) =>
            {
                Container box = Running(engine);
                bool ended = false;
                Task collector = OnThread(() =>
                {
                    while (!Volatile.Read(ref ended))
                    {
                        GC.Collect();
                        GC.WaitForPendingFinalizers();
                    }
                });
                // A program opens some descriptors once: those are open then.
                Raises<DeadlineException>(() => box.Within(TimeSpan.FromMilliseconds(5)).Wait());
                // The collector of Mono takes any number on a stack for a reference, and so keeps a few.
                int before = Descriptors + (Type.GetType("Mono.Runtime") == null ? 0 : 20);
                // On a thread of its own, whose stack keeps nothing afterwards.
                Ended(OnThread(() => Forgetful(engine, box)));
                Volatile.Write(ref ended, true);
                Ended(collector);
                Soon("the end of forgotten handles", () =>
                {
                    GC.Collect();
                    GC.WaitForPendingFinalizers();
                    return Descriptors <= before;
                });
            };
        }

        private static void Unkept()
        {
            Tests["streams of a session that nobody keeps go on, and so does a server"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("trap 'echo end; exit' USR1; echo ready; while :; do sleep 0.05; done"));
                var reader = new StreamReader(Apart(() => box.StartAttached().Stdout));
                Same("ready", reader.ReadLine());
                Container echo = engine.Containers.Create(Shell("cat; exit 4"));
                Stream stdin = Apart(() => echo.StartAttached().Stdin);
                string address = Apart(() => engine.Serve(new { Addresses = new[] { "unix://" + dir + "/api.sock" } }).Addresses()[0]);
                for (int at = 0; at < 5; at++)
                {
                    GC.Collect();
                    GC.WaitForPendingFinalizers();
                    Thread.Sleep(10);
                }
                box.Kill("USR1");
                Same("end", reader.ReadToEnd().Trim());
                stdin.Write(new byte[] { 1 }, 0, 1);
                stdin.Dispose();
                Same(4, echo.Wait());
                Raises<ConflictException>(() => engine.Serve(new { Addresses = new[] { address } }));
            };
            Tests["a descriptor that was taken outlives its session"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("read x; echo late"));
                Session session = box.StartAttached();
                Descriptor taken = session.Take(Channel.Stdout);
                Same(null, session.Take(Channel.Stdout));
                Same(0, session.Stdout.Read(new byte[1], 0, 1));
                session.Write("x\n");
                Same(0, session.Wait());
                session.Dispose();
                using (var reader = new StreamReader(taken.OpenStream()))
                {
                    Same("late\n", reader.ReadToEnd());
                }
                Same(true, taken.IsClosed);
            };
        }
    }
}
