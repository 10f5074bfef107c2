using System;
using System.Collections.Concurrent;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle.Tests
{
    internal static partial class Own
    {
        private const int CrowdThreads = 8;
        private const int CrowdCalls = 40;

        /// <summary>A call whose handle is disposed at once, cancelled, bounded or forgotten.</summary>
        private static readonly Action<Engine, Container>[] Hasty =
        {
            (engine, box) =>
            {
                using (Records<LogLine> logs = box.Logs(Followed))
                {
                    logs.Next();
                }
            },
            (engine, box) =>
            {
                Records<LogLine> logs = box.Logs(Followed);
                Task<LogLine> one = logs.NextAsync(), other = logs.NextAsync();
                logs.Dispose();
                Task.WhenAll(one, other).GetAwaiter().GetResult();
            },
            (engine, box) => Hurry(box.Attach(), session => session.ReadAsync()),
            (engine, box) => Hurry(engine.Events(), events => events.NextAsync()),
            (engine, box) => Hurry(box.Pidfd(), pidfd => pidfd.WaitReadableAsync()),
            (engine, box) => Hurry(box.Attach(), session => session.Stdout.ReadAsync(new byte[10], 0, 10)),
            (engine, box) => Hurry(engine.Connect(), connection => connection.RequestAsync("GET", "/v1.24/events")),
            (engine, box) => Hurry(engine.Again(), again => Task.Run(() => again.Info())),
            (engine, box) => Hurry(engine.Serve(new { Addresses = new[] { "tcp://127.0.0.1:0" }, InsecureTcp = true }), one => Task.Run(() => one.Addresses())),
            (engine, box) =>
            {
                using (var source = new CancellationTokenSource(1))
                {
                    box.WaitAsync(Condition.NotRunning, source.Token).GetAwaiter().GetResult();
                }
            },
            (engine, box) => box.Within(TimeSpan.FromMilliseconds(1)).Wait(),
            (engine, box) => engine.Images.OnProgress(record => throw new InvalidOperationException()).Load(Archive),
            (engine, box) => Same(true, engine.Again().Containers.List().Count > 0),
            (engine, box) => GC.Collect(),
        };

        private static void Hurry<T>(T thing, Func<T, Task> begin) where T : IDisposable
        {
            Task task = begin(thing);
            thing.Dispose();
            task.GetAwaiter().GetResult();
        }

        private static bool IsAnAnswer(Exception thrown) =>
            thrown is CoracleException || thrown is IOException || thrown is OperationCanceledException || thrown is InvalidOperationException;

        private static void Crowd()
        {
            Tests["threads that dispose, cancel and collect at once get exceptions, and the program lives"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("while :; do echo x; sleep 0.01; done"));
                box.Start();
                var wrong = new ConcurrentQueue<Exception>();
                Task[] all = Enumerable.Range(0, CrowdThreads).Select(number => OnThread(() =>
                {
                    for (int at = 0; at < CrowdCalls; at++)
                    {
                        try
                        {
                            Hasty[(at * CrowdThreads + at / 3 + number) % Hasty.Length](engine, box);
                        }
                        catch (Exception thrown)
                        {
                            if (!IsAnAnswer(thrown) || thrown is ObjectDisposedException)
                            {
                                wrong.Enqueue(thrown);
                            }
                        }
                    }
                })).ToArray();
                foreach (Task one in all)
                {
                    Ended(one);
                }
                Same("", string.Join("\n", wrong.Select(one => one.ToString())));
                Same(true, box.Inspect().Is("State.Running"));
            };
        }
    }
}
