using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle.Tests
{
    internal static partial class Own
    {
        /// <summary>An input that gives nothing until it is let go.</summary>
        private sealed class Silent : MemoryStream
        {
            internal readonly ManualResetEventSlim LetGo = new ManualResetEventSlim();

            public override int Read(byte[] buffer, int offset, int count)
            {
                LetGo.Wait();
                return 0;
            }

            public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellation) =>
                Task.Run(() => Read(buffer, offset, count));
        }

        private sealed class Failing : MemoryStream
        {
            private readonly Exception own;

            internal Failing(Exception own)
            {
                this.own = own;
            }

            public override int Read(byte[] buffer, int offset, int count) => throw own;
        }

        /// <summary>A stream that says it gave more than there was room for.</summary>
        private sealed class Generous : MemoryStream
        {
            public override int Read(byte[] buffer, int offset, int count) => count + 1;
        }

        private static void Streams()
        {
            Tests["streams of .NET: input and both outputs"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("while read line; do echo out $line; echo err $line >&2; done; exit 4"));
                using (Session session = box.StartAttached())
                {
                    var stdin = new StreamWriter(session.Stdin) { AutoFlush = true };
                    StreamReader stdout = new StreamReader(session.Stdout), stderr = new StreamReader(session.Stderr);
                    foreach (string word in new[] { "one", "two" })
                    {
                        stdin.Write(word + "\n");
                        Same("out " + word, Ended(stdout.ReadLineAsync()));
                        Same("err " + word, stderr.ReadLine());
                    }
                    stdin.Dispose();
                    Same(null, stdout.ReadLine());
                    Same(null, stderr.ReadLine());
                    Same(4, session.Wait());
                }
            };
            Tests["a deadline of Communicate holds for the whole, however often something comes"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("while :; do echo .; sleep 0.05; done"));
                using (Session session = box.StartAttached())
                {
                    Raises<DeadlineException>(() => Ended(session.Within(TimeSpan.FromMilliseconds(500)).CommunicateAsync()));
                }
            };
            Tests["an input that gives nothing more is not waited for"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("echo gone; exit 3"));
                var silent = new Silent();
                using (Session session = box.StartAttached())
                {
                    Output output = Ended(session.CommunicateAsync(silent));
                    Same((3, "gone\n"), (output.Code, output.Text));
                }
                silent.LetGo.Set();
            };
            Tests["big inputs and outputs, and an error of the input"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("cat"));
                string big = new string('x', 3 << 20);
                using (Session session = box.StartAttached())
                {
                    Same(true, Ended(session.CommunicateAsync(big)).Text == big);
                }
                using (Session session = engine.Containers.Create(Shell("cat")).StartAttached())
                {
                    Same("own", Raises<InvalidOperationException>(() => session.Communicate(new Failing(new InvalidOperationException("own")))).Message);
                }
            };
        }

        private static void Processes()
        {
            Tests["a terminal, an exec, samples, a run"] = (engine, dir) =>
            {
                Container tty = engine.Containers.Create(
                    new { Image = "busybox", Cmd = new[] { "stty", "size" }, Tty = true, HostConfig = new { NetworkMode = "none" } });
                using (Session session = tty.StartAttached(new ProcessIo { Rows = 11, Cols = 22 }))
                {
                    Same("11 22\r\n", session.Communicate().Text);
                }
                Container box = Running(engine);
                Output output = box.Run("sh", "-c", "echo o; echo e >&2; exit 3");
                Same((3, "o\n", "e\n"), (output.Code, output.Text, output.ErrorText));
                using (Records<Document> samples = box.Samples())
                {
                    Same(true, samples.First().Number("pids_stats.current") > 0);
                }
            };
            Tests["descriptors of the caller's are a process's streams"] = (engine, dir) =>
            {
                File.WriteAllText(dir + "/in", "from a file\n");
                Container box = engine.Containers.Create(Shell("cat; echo end"));
                using (Descriptor stdin = Descriptor.Open(dir + "/in"))
                using (Session session = box.StartAttached(new ProcessIo { Stdin = stdin }))
                {
                    Same("from a file\nend\n", session.Communicate().Text);
                }
                // Whatever of .NET has a descriptor.
                using (FileStream stdin = File.OpenRead(dir + "/in"))
                using (var stdout = new FileStream(dir + "/out", FileMode.Create, FileAccess.Write, FileShare.ReadWrite))
                using (Session session = Ended(
                    engine.Containers.Create(Shell("cat; echo end")).StartAttachedAsync(
                        new ProcessIo { Stdin = stdin.SafeFileHandle, Stdout = stdout.SafeFileHandle })))
                {
                    Same(0, session.Wait());
                    stdout.Dispose();
                    Same("from a file\nend\n", File.ReadAllText(dir + "/out"));
                }
            };
        }

        private static void Connections()
        {
            Tests["requests over a private connection: bodies in pieces, and a stream in both directions"] = (engine, dir) =>
            {
                using (FileStream archive = File.OpenRead(Archive))
                using (Response answer = engine.Connect().Request(
                    "POST", "/v1.24/images/load", new Dictionary<string, string> { ["Content-Type"] = "application/x-tar" }, archive))
                {
                    Same(200, answer.Status);
                    Same(true, answer.Text().Contains("Loaded image"));
                }
                Container box = engine.Containers.Create(Shell("cat; exit 2"));
                using (Response answer = engine.Connect().Request(
                    "POST", "/v1.24/containers/" + box.Id + "/attach?stream=1&stdin=1&stdout=1",
                    new Dictionary<string, string> { ["Connection"] = "Upgrade", ["Upgrade"] = "tcp" }))
                {
                    Same(101, answer.Status);
                    box.Start();
                    answer.Body.Write(Encoding.ASCII.GetBytes("there and back\n"), 0, 15);
                    var frame = new byte[8 + 15];
                    for (int at = 0; at < frame.Length;)
                    {
                        at += answer.Body.Read(frame, at, frame.Length - at);
                    }
                    Same("there and back\n", Encoding.ASCII.GetString(frame, 8, 15));
                }
                Raises<IOException>(() => engine.Connect().Request("GET", "/_ping\r\nX: y"));
            };
            Tests["HttpClient over private connections"] = (engine, dir) => Ended(Client(engine));
        }

        private static async Task Client(Engine engine)
        {
            Engine own = engine.Again();
            using (var client = new HttpClient(own.HttpHandler()) { BaseAddress = new Uri("http://coracle/v1.24/") })
            {
                // The client has a handle of its own.
                own.Dispose();
                Same("OK", (await client.GetStringAsync("/_ping")).Trim());
                string body = "{\"Image\":\"busybox\",\"Cmd\":[\"sleep\",\"1000\"],\"HostConfig\":{\"NetworkMode\":\"none\"}}";
                HttpResponseMessage made = await client.PostAsync("containers/create?name=web", new StringContent(body, Encoding.UTF8, "application/json"));
                Same((201, "application/json"), ((int)made.StatusCode, made.Content.Headers.ContentType.MediaType));
                Same(204, (int)(await client.PostAsync("containers/web/start", null)).StatusCode);
                Same(404, (int)(await client.GetAsync("containers/nobody/json")).StatusCode);
                Task[] many = Enumerable.Range(0, 20).Select(one => (Task)client.GetStringAsync("containers/web/json")).ToArray();
                await Task.WhenAll(many);
                var source = new CancellationTokenSource();
                Task<HttpResponseMessage> waiting = client.PostAsync("containers/web/wait", null, source.Token);
                await Task.Delay(50);
                source.Cancel();
                Raises<OperationCanceledException>(() => Ended(waiting));
                Same(204, (int)(await client.DeleteAsync("containers/web?force=1")).StatusCode);
            }
        }

        private static void Callers()
        {
            Tests["the caller's own exceptions come back as they are"] = (engine, dir) =>
            {
                foreach (Exception own in new Exception[] { new InvalidOperationException("own"), new OperationCanceledException(), new ObjectDisposedException("x") })
                {
                    Same(own, Raises<Exception>(() => engine.Images.OnProgress(record => throw own).Load(Archive)));
                    Same(own, Raises<Exception>(() => engine.Images.Load(new Failing(own))));
                    Same(own, Raises<Exception>(() => Ended(engine.Images.LoadAsync(new Failing(own)))));
                }
                Raises<IOException>(() => engine.Images.Load(new Generous()));
            };
            Tests["a listener may call the engine, and gets the records on the calling thread"] = (engine, dir) =>
            {
                var records = new List<Progress>();
                Thread caller = Thread.CurrentThread;
                engine.Images.Remove("busybox");
                using (FileStream archive = File.OpenRead(Archive))
                {
                    engine.Images.OnProgress(record =>
                    {
                        Same(caller, Thread.CurrentThread);
                        engine.Containers.List();
                        GC.Collect();
                        records.Add(record);
                    }).Load(archive);
                }
                Same(true, records.Count > 0);
            };
            Tests["a log sink that throws ends nothing, and one that was replaced is let go"] = (engine, dir) =>
            {
                var told = new List<string>();
                Library.SetLog(LogLevel.Info, (level, target, message) =>
                {
                    lock (told)
                    {
                        told.Add(message);
                    }
                    throw new InvalidOperationException("a sink");
                });
                Running(engine);
                int kept = Callbacks.Kept;
                Library.SetLog(LogLevel.Info, null);
                Soon("the end of the sink", () => Callbacks.Kept < kept);
                Same(true, told.Count > 0);
            };
        }

        private static void Life(Engine engine)
        {
            Container box = engine.Containers.Create(Shell("cat; exit 5"));
            using (Session session = box.StartAttached())
            {
                Same("in", session.Communicate("in").Text);
            }
            Raises<DeadlineException>(() => Running(engine).Within(TimeSpan.Zero).Wait());
            using (Records<LogLine> logs = box.Logs())
            {
                Same("in", logs.Next().Text);
            }
            Raises<CoracleException>(() => engine.Images.Load(new MemoryStream(new byte[1024])));
            foreach (Document one in engine.Containers.List(new { all = true }))
            {
                engine.Container(one.Text("Id")).Remove(Remove.Force);
            }
        }

        private static long Resident
        {
            get
            {
                GC.Collect();
                GC.WaitForPendingFinalizers();
                GC.Collect();
                return long.Parse(File.ReadAllText("/proc/self/statm").Split(' ')[1]) * 4096;
            }
        }

        private static void Leaks()
        {
            Tests["lives of containers leave no descriptor, no handle, no thread and no memory"] = (engine, dir) =>
            {
                int lives = Program.Number("CORACLE_LIVES", 20);
                for (int at = 0; at < 5; at++)
                {
                    Life(engine);
                }
                long memory = Resident;
                int files = Descriptors, kept = Callbacks.Kept;
                for (int at = 0; at < lives; at++)
                {
                    Life(engine);
                }
                Soon("the end of descriptors", () => Descriptors <= files);
                Same(true, Callbacks.Kept <= kept);
                // Room for whatever the runtime compiles meanwhile, and for its heap, which has a bound of its own.
                long grown = Resident - memory;
                Console.WriteLine(lives + " lives: memory grew by " + grown + " bytes");
                Same(true, grown < (96L << 20) + lives * 4096L);
            };
        }
    }
}
