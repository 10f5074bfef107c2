using System;
using System.IO;
using System.Net.Http;
using System.Net.Sockets;
using System.Threading;
using Microsoft.Win32.SafeHandles;

namespace Coracle.Tests
{
    internal static partial class Own
    {
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
        }
    }
}
