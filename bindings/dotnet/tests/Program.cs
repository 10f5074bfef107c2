using System;
using System.Collections.Generic;
using System.IO;

namespace Coracle.Tests
{
    /// <summary>coracle-tests scenarios|own|hello|host ARGUMENT...</summary>
    internal static class Program
    {
        /// <summary>How long to wait for something that comes.</summary>
        internal static readonly TimeSpan Long = TimeSpan.FromSeconds(Number("CORACLE_TEST_SECONDS", 300));

        private static readonly Random Chance = new Random();

        internal static int Number(string variable, int otherwise) =>
            int.TryParse(Environment.GetEnvironmentVariable(variable), out int found) ? found : otherwise;

        /// <summary>A new directory, with a short name, because of sockets below it.</summary>
        internal static string Directory(string name)
        {
            string made = Path.Combine(Path.GetTempPath(), name + Chance.Next(1 << 30).ToString("x"));
            return System.IO.Directory.CreateDirectory(made).FullName;
        }

        internal static Engine Open(string dir) =>
            Engine.Open(
                Path.Combine(dir, "root"),
                new OpenOptions { RunDirectory = Path.Combine(dir, "run"), Configuration = new { durability = "off" } });

        private static int Main(string[] arguments)
        {
            string first = arguments.Length > 1 ? arguments[1] : "";
            switch (arguments[0])
            {
                case "scenarios": return Scenarios.All(first) ? 0 : 1;
                case "own": return Own.All(first) ? 0 : 1;
                default:
                    Hello.Say(arguments[1], arguments[2]);
                    return 0;
            }
        }
    }
}
