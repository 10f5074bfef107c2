using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle.Tests
{
    internal static partial class Own
    {
        /// <summary>A dictionary that is not one of .NET's own.</summary>
        private sealed class Pairs : IReadOnlyDictionary<string, int>
        {
            public int this[string key] => 1;
            public IEnumerable<string> Keys => new[] { "a" };
            public IEnumerable<int> Values => new[] { 1 };
            public int Count => 1;
            public bool ContainsKey(string key) => key == "a";

            public bool TryGetValue(string key, out int value)
            {
                value = 1;
                return key == "a";
            }

            public IEnumerator<KeyValuePair<string, int>> GetEnumerator()
            {
                yield return new KeyValuePair<string, int>("a", 1);
            }

            IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();
        }

        private static string Seconds(long nanos) => (nanos / 1000000000).ToString(CultureInfo.InvariantCulture) + "." + (nanos % 1000000000).ToString("d9", CultureInfo.InvariantCulture);

        private static void Values()
        {
            Tests["times go into documents with their zone and every digit"] = (engine, dir) =>
            {
                var utc = new DateTime(2026, 11, 28, 1, 2, 3, DateTimeKind.Utc).AddTicks(1234567);
                var there = new DateTimeOffset(utc.Ticks, TimeSpan.FromMinutes(330));
                Same("{\"at\":\"2026-11-28T01:02:03.1234567Z\"}", Document.Write(new { at = utc }));
                Same("{\"at\":\"2026-11-28T01:02:03.1234567+05:30\"}", Document.Write(new { at = there }));
                Same("[\"2026-11-28T01:02:03.1234567-03:00\"]", Document.Write(new[] { new DateTimeOffset(utc.Ticks, TimeSpan.FromHours(-3)) }));
                string local = Document.Write(new { at = utc.ToLocalTime() });
                Same(utc, Document.Parse(local).Time("at").Value.UtcDateTime);
                Raises<InvalidException>(() => Document.Write(new { at = new DateTime(2026, 11, 28) }));
                Same("{\"Interval\":1500000000}", Document.Write(new { Interval = TimeSpan.FromSeconds(1.5) }));
                Raises<InvalidException>(() => Document.Write(new { Interval = TimeSpan.MaxValue }));
            };
            Tests["times come out of documents with their zone, and no digit of the text is lost"] = (engine, dir) =>
            {
                const string Text = "2026-11-28T10:02:03.123456789+05:30";
                Document found = Document.Parse("{\"at\":\"" + Text + "\",\"plain\":\"2026-11-28T10:02:03Z\",\"few\":\"2026-11-28T10:02:03.5Z\",\"never\":\"0001-01-01T00:00:00Z\"}");
                Same(Text, found.Text("at"));
                Same(true, found.ToString().Contains(Text));
                DateTimeOffset at = found.Time("at").Value;
                Same((TimeSpan.FromMinutes(330), 1234567L), (at.Offset, at.Ticks % TimeSpan.TicksPerSecond));
                Same((0L, 5000000L), (found.Time("plain").Value.Ticks % 10000000, found.Time("few").Value.Ticks % 10000000));
                Same(DateTimeOffset.MinValue, found.Time("never").Value);
                Same(null, found.Time("nothing"));
                Raises<FormatException>(() => Document.Parse("{\"at\":\"yesterday\"}").Time("at"));
                Container box = engine.Containers.Create(Shell("echo one; echo two"));
                box.Start();
                box.Wait();
                string started = box.Inspect().Text("State.StartedAt");
                Same(
                    started.TrimEnd('Z').PadRight(27, '0').Substring(0, 27),
                    box.Inspect().Time("State.StartedAt").Value.UtcDateTime.ToString("yyyy-MM-dd'T'HH:mm:ss.fffffff", CultureInfo.InvariantCulture));
            };
            Tests["lines and events have their nanoseconds, from which a reader goes on"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("echo one; sleep 0.05; echo two"));
                box.Start();
                box.Wait();
                LogLine[] lines = box.Logs().ToArray();
                Same(lines[1].Nanos / 100, (lines[1].Time - new DateTimeOffset(1970, 1, 1, 0, 0, 0, TimeSpan.Zero)).Ticks);
                Same("two", string.Join(",", box.Logs(new { since = Seconds(lines[0].Nanos + 1) })));
                Same("one,two", string.Join(",", box.Logs(new { since = Seconds(lines[0].Nanos) })));
                // A time of .NET is never after the line's own.
                Same("two", string.Join(",", box.Logs(new { since = lines[1].Time })));
                using (Events events = engine.Events(new { since = 1, until = lines[1].Time.AddHours(1) }))
                {
                    Event first = events.Within(Program.Long).First();
                    Same(first.Document.Number("timeNano"), first.Nanos);
                    Same(first.Nanos / 100, (first.Time - new DateTimeOffset(1970, 1, 1, 0, 0, 0, TimeSpan.Zero)).Ticks);
                }
                Same(-1, Times.Of(-1).Ticks - Times.Of(0).Ticks);
            };
            Tests["big numbers, bytes, addresses and dictionaries of other types"] = (engine, dir) =>
            {
                const string Big = "{\"big\":18446744073709551615,\"least\":-9223372036854775808}";
                Document found = Document.Parse(Big);
                Same(Big, found.ToString());
                Same((ulong.MaxValue, long.MinValue), ((ulong)found["big"], found.Number("least")));
                Raises<OverflowException>(() => found.Number("big"));
                Same("{\"a\":1}", Document.Write(new Pairs()));
                Same("{\"data\":\"AQID\",\"at\":\"http://a/b\",\"part\":0.1}", Document.Write(new { data = new byte[] { 1, 2, 3 }, at = new Uri("http://a/b"), part = 0.1f }));
                Same("{\"a\":\"b\"}", Document.Write(new SortedList<string, string> { ["a"] = "b" }));
            };
            Tests["tasks and values of another reader of JSON are refused, and read nothing"] = (engine, dir) =>
            {
                Raises<InvalidException>(() => Document.Write(new { Image = new TaskCompletionSource<string>().Task }));
                // Mono has no such reader.
                Type other = Type.GetType("System.Text.Json.JsonDocument, System.Text.Json", false);
                Same(true, other != null || IsMono);
                if (other != null)
                {
                    object parsed = other.GetMethods().First(one => one.Name == "Parse" && one.GetParameters()[0].ParameterType == typeof(string))
                        .Invoke(null, new[] { "{\"Image\":\"busybox\"}", Activator.CreateInstance(other.Assembly.GetType("System.Text.Json.JsonDocumentOptions")) });
                    Raises<InvalidException>(() => engine.Containers.Create(other.GetProperty("RootElement").GetValue(parsed)));
                }
            };
            Tests["Timeout.InfiniteTimeSpan is no bound, and null is refused where it must not be"] = (engine, dir) =>
            {
                Container box = engine.Containers.Create(Shell("sleep 0.2; exit 7"));
                using (Session session = box.Within(Timeout.InfiniteTimeSpan).StartAttached())
                {
                    Same(7, session.Within(Timeout.InfiniteTimeSpan).Wait());
                    Raises<ArgumentNullException>(() => session.Write((byte[])null));
                    Raises<ArgumentNullException>(() => session.WriteAsync(null));
                    Raises<ArgumentNullException>(() => Ended(session.CommunicateAsync((System.IO.Stream)null)));
                    Raises<ArgumentNullException>(() => engine.Async((Action<Engine>)null));
                }
            };
        }
    }
}
