using System;
using System.Collections.Concurrent;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Net.Sockets;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Win32.SafeHandles;

namespace Coracle.Tests
{
    internal static partial class Own
    {
        private const int DisposingThreads = 6;
        private const int DisposingRounds = 8;

        /// <summary>Has the garbage collector end whatever nobody keeps, some times.</summary>
        private static void Collect()
        {
            for (int at = 0; at < 5; at++)
            {
                GC.Collect();
                GC.WaitForPendingFinalizers();
                Thread.Sleep(10);
            }
        }

        private static object Leased(string lease) =>
            new
            {
                Image = "busybox",
                Cmd = new[] { "sleep", "1000" },
                Labels = new System.Collections.Generic.Dictionary<string, string> { ["coracle.lease"] = lease },
                HostConfig = new { NetworkMode = "none" },
            };

        private static bool Runs(Engine engine, string id)
        {
            try
            {
                return engine.Container(id).Inspect().Is("State.Running");
            }
            catch (NotFoundException)
            {
                return false;
            }
        }

        private static string RunEphemeral(string dir)
        {
            Engine ephemeral = Engine.Open(
                Path.Combine(dir, "root"),
                new OpenOptions { RunDirectory = Path.Combine(dir, "run"), Configuration = new { durability = "off" }, Ephemeral = true });
            // A handle of the same engine counts as well.
            Container box = ephemeral.Again().Containers.Create(
                new { Image = "busybox", Cmd = new[] { "sleep", "1000" }, HostConfig = new { NetworkMode = "none" } });
            box.Start();
            ephemeral.Dispose();
            return box.Id;
        }

        private static void Kept()
        {
            Tests["descriptors of the caller's stay open during a call, disposed or forgotten"] = (engine, dir) =>
            {
                File.WriteAllText(dir + "/in", "in");
                Descriptor disposed = Descriptor.Open(dir + "/in");
                WeakReference forgotten = null;
                using (var call = new Call(Bounds.None))
                {
                    call.Io(new ProcessIo { Stdin = disposed });
                    disposed.Dispose();
                    Same(false, disposed.IsClosed);
                    Ended(OnThread(() =>
                    {
                        Descriptor one = Descriptor.Open(dir + "/in");
                        forgotten = new WeakReference(one);
                        call.Io(new ProcessIo { Stdout = one });
                    }));
                    Collect();
                    Same(true, forgotten.IsAlive);
                    Raises<MisuseException>(() => call.Io(new ProcessIo { Stdin = disposed }));
                }
                Same(true, disposed.IsClosed);
                Container box = engine.Containers.Create(Shell("true"));
                Raises<MisuseException>(() => box.StartAttached(new ProcessIo { Stdin = disposed }));
                Raises<MisuseException>(() => Ended(box.StartAttachedAsync(new ProcessIo { Stdin = disposed })));
                Raises<MisuseException>(() => box.StartAttached(new ProcessIo { Stdin = new SafeFileHandle((IntPtr)(-1), false) }));
            };
            Tests["a server takes sockets of the caller's"] = (engine, dir) =>
            {
                using (var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp))
                {
                    listener.Bind(new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, 0));
                    listener.Listen(5);
                    using (engine.Serve(new { InsecureTcp = true }, new SafeFileHandle(listener.Handle, false)))
                    using (var client = new HttpClient())
                    {
                        Same("OK", Ended(client.GetStringAsync("http://" + listener.LocalEndPoint + "/_ping")).Trim());
                    }
                    Raises<ArgumentNullException>(() => engine.Serve(new { InsecureTcp = true }, new SafeFileHandle[1]));
                }
            };
            Tests["a lease that is forgotten is held, one that is disposed is not"] = (engine, dir) =>
            {
                Ended(OnThread(() => Same(false, engine.Lease("forgotten").IsClosed)));
                Descriptor lease = engine.Lease("disposed");
                Container box = engine.Containers.Create(Leased("forgotten")), other = engine.Containers.Create(Leased("disposed"));
                box.Start();
                other.Start();
                Collect();
                Same(true, Runs(engine, box.Id) && Runs(engine, other.Id));
                lease.Dispose();
                Soon("the end of the container whose lease was disposed", () => !Runs(engine, other.Id));
                Collect();
                Same(true, Runs(engine, box.Id));
            };
            Tests["an ephemeral engine that is forgotten ends no container"] = (engine, dir) =>
            {
                string id = null;
                Ended(OnThread(() => id = RunEphemeral(dir)));
                Collect();
                Same(true, Runs(engine, id));
            };
            Tests["a session that is forgotten while a task waits for its process is kept"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("read x; exit 6"));
                Task<int> exit = null;
                Ended(OnThread(() => exit = box.StartAttached().WaitAsync()));
                Collect();
                Same(false, exit.IsCompleted);
                using (Session session = box.Attach())
                {
                    session.Write("x\n");
                }
                Same(6, Ended(exit));
            };
        }

        /// <summary>Has many threads dispose a thing at once, while others use it.</summary>
        private static void DisposeTogether<T>(Func<T> make, Action<T> use, ConcurrentQueue<Exception> wrong) where T : IDisposable
        {
            for (int round = 0; round < DisposingRounds; round++)
            {
                T thing = make();
                using (var start = new Barrier(DisposingThreads))
                {
                    Task[] all = Enumerable.Range(0, DisposingThreads).Select(number => OnThread(() =>
                    {
                        start.SignalAndWait();
                        try
                        {
                            if (number < 2)
                            {
                                use(thing);
                            }
                            thing.Dispose();
                        }
                        catch (Exception thrown)
                        {
                            if (number >= 2 || !IsAnAnswer(thrown) || thrown is ObjectDisposedException)
                            {
                                wrong.Enqueue(thrown);
                            }
                        }
                    })).ToArray();
                    foreach (Task one in all)
                    {
                        Ended(one);
                    }
                }
            }
        }

        /// <summary>Disposes a stream, which throws nothing, whatever others do to its session.</summary>
        private static void Quietly(Stream stream, ConcurrentQueue<Exception> wrong)
        {
            try
            {
                stream.Dispose();
            }
            catch (Exception thrown)
            {
                wrong.Enqueue(thrown);
            }
        }

        private static void Disposed()
        {
            Tests["many threads dispose a thing at once, and others use it meanwhile"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("while :; do echo x; sleep 0.01; done"));
                box.Start();
                var wrong = new ConcurrentQueue<Exception>();
                // The first round also opens whatever the runtime and the engine open once.
                int before = int.MaxValue;
                for (int round = 0; round < 2; round++)
                {
                    DisposeTogether(() => box.Attach(), one => Same(false, one.Wait() == 0), wrong);
                    DisposeTogether(() => box.Attach(), one => one.Stdout.CopyTo(new MemoryStream()), wrong);
                    DisposeTogether(() => box.Attach(), one => Quietly(one.Stdin, wrong), wrong);
                    DisposeTogether(() => box.Attach(), one => one.Take(Channel.Stderr)?.Dispose(), wrong);
                    DisposeTogether(() => box.Attach(), one => Ended(one.CommunicateAsync("x")), wrong);
                    DisposeTogether(() => engine.Again(), one => one.Containers.List(), wrong);
                    DisposeTogether(() => engine.Events(), one => one.Next(), wrong);
                    DisposeTogether(() => box.Logs(Followed), one => one.Count(), wrong);
                    DisposeTogether(() => box.Pidfd(), one => one.WaitReadable(), wrong);
                    DisposeTogether(() => box.Export(), one => one.CopyTo(new MemoryStream()), wrong);
                    DisposeTogether(() => engine.Connect(), one => one.Request("GET", "/v1.24/events"), wrong);
                    DisposeTogether(() => engine.HttpHandler(), one => one.GetHashCode(), wrong);
                    DisposeTogether(() => engine.Lease("many"), one => one.OpenStream(), wrong);
                    DisposeTogether(
                        () => engine.Serve(new { Addresses = new[] { "tcp://127.0.0.1:0" }, InsecureTcp = true }), one => one.Shutdown(TimeSpan.Zero), wrong);
                    Same("", string.Join("\n", wrong.Select(one => one.ToString())));
                    Soon("the end of descriptors", () =>
                    {
                        Collect();
                        return Descriptors <= before;
                    });
                    before = Descriptors + (IsMono ? 20 : 0);
                }
                Same(true, box.Inspect().Is("State.Running"));
            };
        }

        private static bool IsMono => Type.GetType("Mono.Runtime") != null;
    }
}
