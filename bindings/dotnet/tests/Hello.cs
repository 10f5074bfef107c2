using System;
using System.Diagnostics;
using System.Globalization;

namespace Coracle.Tests
{
    /// <summary>
    /// Says hello from a container, and prints the time from the start of Main to the container's first output, the time of a call that does
    /// nothing in the library, and of the operation that a bounded call has.
    /// </summary>
    internal static class Hello
    {
        private const int Calls = 20000;

        private static string Micros(Action call)
        {
            for (int at = 0; at < Calls; at++)
            {
                call();
            }
            Stopwatch passed = Stopwatch.StartNew();
            for (int at = 0; at < Calls; at++)
            {
                call();
            }
            return (passed.Elapsed.TotalMilliseconds * 1000 / Calls).ToString("0.00", CultureInfo.InvariantCulture);
        }

        private static void Operation()
        {
            using (var call = new Call(Bounds.None.Within(TimeSpan.FromSeconds(9))))
            {
                call.Op();
            }
        }

        internal static void Say(string root, string archive)
        {
            Stopwatch passed = Stopwatch.StartNew();
            using (Engine engine = Engine.Open(root))
            {
                string image = engine.Images.List().Count == 0 ? engine.Images.Load(archive)[0] : "busybox";
                double loaded = passed.Elapsed.TotalMilliseconds;
                Container box = engine.Containers.Create(
                    new { Image = image, Cmd = new[] { "echo", "hello" }, HostConfig = new { NetworkMode = "none" } });
                using (Session session = box.StartAttached())
                {
                    Console.Write(session.Read().Text);
                }
                double said = passed.Elapsed.TotalMilliseconds;
                Console.WriteLine(string.Format(
                    CultureInfo.InvariantCulture, "{0:0.0} ms to the first output, {1:0.0} of them without opening and loading", said, said - loaded));
                Console.WriteLine(Micros(() => Library.HasFeature("containers")) + " us a call of HasFeature");
                Console.WriteLine(Micros(Operation) + " us the operation of a call, with its deadline");
                box.Remove(Remove.Force);
            }
        }
    }
}
