using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Threading;

namespace Coracle.Tests
{
    /// <summary>
    /// Runs the scenarios that all bindings share (bindings/scenarios) by this binding. Environment: CORACLE_LIBRARY, CORACLE_TEST_IMAGE (an
    /// archive), CORACLE_TEST_REGISTRY (host:port), CORACLE_SCENARIOS (the file).
    /// </summary>
    internal sealed class Scenarios
    {
        private readonly Dictionary<string, object> list;

        private Scenarios(Dictionary<string, object> list, string dir, Dictionary<string, object> values, Dictionary<string, object> things)
        {
            this.list = list;
            Dir = dir;
            Values = values;
            Things = things;
        }

        internal string Dir { get; }

        internal Dictionary<string, object> Values { get; }

        internal Dictionary<string, object> Things { get; }

        /// <summary>The output of each session that was read so far.</summary>
        internal Dictionary<string, Dictionary<string, object>> Seen { get; } = new Dictionary<string, Dictionary<string, object>>();

        private static Scenarios Begin(Dictionary<string, object> list)
        {
            string dir = Program.Directory("scn-");
            string archive = Environment.GetEnvironmentVariable("CORACLE_TEST_IMAGE");
            Engine engine = Program.Open(dir);
            var values = new Dictionary<string, object>((Dictionary<string, object>)list["values"])
            {
                ["dir"] = dir,
                ["archive"] = archive,
                ["registry"] = Environment.GetEnvironmentVariable("CORACLE_TEST_REGISTRY"),
                ["image"] = engine.Images.Load(archive)[0],
            };
            return new Scenarios(list, dir, values, new Dictionary<string, object> { ["engine"] = engine });
        }

        private void End()
        {
            // The scenario may have closed its own handle.
            using (Engine engine = Program.Open(Dir))
            {
                foreach (Document one in engine.Containers.List(new { all = true }))
                {
                    try
                    {
                        engine.Container(one.Text("Id")).Remove(Remove.Force | Remove.Volumes);
                    }
                    catch (NotFoundException)
                    {
                        // The container removed itself.
                    }
                }
                foreach (Document one in engine.Plugins.List())
                {
                    engine.Plugins.Remove(one.Text("Id"), true);
                }
                engine.Networks.Prune();
                engine.Networks.Release();
            }
            Close(Things.Values);
            Directory.Delete(Dir, true);
        }

        private static void Close(IEnumerable<object> things)
        {
            foreach (IDisposable one in things.OfType<IDisposable>())
            {
                one.Dispose();
            }
        }

        /// <summary>Steps with values and handles of their own on the same root.</summary>
        internal void Aside(List<object> steps)
        {
            var other = new Scenarios(list, Dir, new Dictionary<string, object>(Values), new Dictionary<string, object>(Things));
            try
            {
                other.Run(steps);
            }
            finally
            {
                Close(other.Things.Values.Except(Things.Values));
            }
        }

        internal void Run(List<object> steps)
        {
            foreach (Dictionary<string, object> one in steps)
            {
                // C# has no feature that a step may need.
                if (one.ContainsKey("needs"))
                {
                    continue;
                }
                if (one.TryGetValue("use", out object fragment))
                {
                    Run((List<object>)((Dictionary<string, object>)list["fragments"])[(string)fragment]);
                    continue;
                }
                UntilItIsSo(one);
            }
        }

        private void UntilItIsSo(Dictionary<string, object> one)
        {
            Stopwatch passed = Stopwatch.StartNew();
            for (;;)
            {
                try
                {
                    Once(one);
                    return;
                }
                catch (Exception failed)
                {
                    if (!one.ContainsKey("retry") || passed.Elapsed > Program.Long)
                    {
                        string text = Json.Write(one);
                        throw new Exception(text.Substring(0, Math.Min(text.Length, 300)) + ": " + failed.Message, failed);
                    }
                    Thread.Sleep(50);
                }
            }
        }

        private void Once(Dictionary<string, object> one)
        {
            var given = new Given(one.ToDictionary(each => each.Key, each => each.Key == "steps" ? each.Value : Filled(each.Value)));
            object result;
            try
            {
                result = Matching.Plain(Steps.Run(this, given));
            }
            catch (Exception failed) when (!(failed is Wrong))
            {
                Expect(given, failed);
                return;
            }
            if (given.Has("error"))
            {
                throw new Wrong("wanted " + given.Text("error") + ", got " + Json.Write(result));
            }
            if (given.Has("expect"))
            {
                Matching.Match(given["expect"], result, "");
            }
            if (given.Has("save"))
            {
                foreach (KeyValuePair<string, object> each in given.Map("save"))
                {
                    Values[each.Key] = ((string)each.Value).Split('.').Aggregate(
                        result, (value, part) => part.Length == 0 ? value : ((IReadOnlyDictionary<string, object>)value)[part]);
                }
            }
        }

        private static readonly Dictionary<Code, string> Names =
            Enum.GetValues(typeof(Code)).Cast<Code>().ToDictionary(code => code, code => Library.StatusName((int)code));

        private static void Expect(Given given, Exception failed)
        {
            CoracleException error = failed as CoracleException ?? (failed as OperationCanceledException)?.InnerException as CoracleException;
            string code = failed is Steps.Caller ? "CALLER" : error == null ? failed.ToString() : Names[error.Code];
            if (failed is OperationCanceledException)
            {
                code = "CANCELLED";
            }
            if (code != given.Text("error"))
            {
                throw new Wrong((given.Has("error") ? "wanted " + given.Text("error") + ", got " : "") + code + ": " + failed.Message);
            }
            if (error == null)
            {
                return;
            }
            if (given.Has("status") && given.Number("status") != error.Status)
            {
                throw new Wrong("wanted status " + given.Number("status") + ", got " + error.Status);
            }
            if (given.Has("detail"))
            {
                if (given.Map("detail").TryGetValue("field", out object field) && !field.Equals(error.Field))
                {
                    throw new Wrong("wanted field " + field + ", got " + error.Field);
                }
                Matching.Match(given["detail"], error.Detail.Members, "detail");
            }
            if (given.Has("has") && !error.Message.Contains(given.Text("has")))
            {
                throw new Wrong("wanted \"" + given.Text("has") + "\" in \"" + error.Message + "\"");
            }
        }

        /// <summary>A value with the values of names such as $id; $$ is a dollar sign.</summary>
        private object Filled(object value)
        {
            if (value is List<object> all)
            {
                return all.Select(Filled).ToList();
            }
            if (value is Dictionary<string, object> map)
            {
                return map.ToDictionary(one => one.Key, one => Filled(one.Value));
            }
            if (!(value is string text))
            {
                return value;
            }
            if (text.StartsWith("$", StringComparison.Ordinal) && Values.TryGetValue(text.Substring(1), out object whole))
            {
                return whole;
            }
            string made = text.Replace("$$", "\u0001");
            foreach (KeyValuePair<string, object> one in Values.OrderByDescending(one => one.Key.Length).ToList())
            {
                made = one.Value is string found ? made.Replace("$" + one.Key, found) : made;
            }
            return made.Replace('\u0001', '$');
        }

        /// <summary>Those whose names have the words in them.</summary>
        internal static bool All(string words)
        {
            var list = (Dictionary<string, object>)Json.Read(File.ReadAllText(Environment.GetEnvironmentVariable("CORACLE_SCENARIOS")));
            int passed = 0, failed = 0;
            bool verbose = Environment.GetEnvironmentVariable("CORACLE_VERBOSE") != null;
            foreach (Dictionary<string, object> scenario in (List<object>)list["scenarios"])
            {
                var name = (string)scenario["name"];
                if (!name.Contains(words))
                {
                    continue;
                }
                if (scenario.ContainsKey("needs"))
                {
                    Console.WriteLine("not for .NET: " + name + " " + Json.Write(scenario["needs"]));
                    continue;
                }
                Scenarios run = Begin(list);
                try
                {
                    run.Run((List<object>)scenario["steps"]);
                    passed++;
                }
                catch (Exception wrong)
                {
                    failed++;
                    Console.WriteLine("failed: " + name + ": " + (verbose ? wrong.ToString() : wrong.Message));
                }
                run.End();
            }
            Console.WriteLine(passed + " passed, " + failed + " failed");
            return failed == 0 && passed != 0;
        }
    }
}
