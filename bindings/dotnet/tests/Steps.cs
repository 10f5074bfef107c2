using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle.Tests
{
    using Map = Dictionary<string, object>;
    using Step = Func<Scenarios, Engine, Given, object>;

    /// <summary>Each step of the scenarios by the binding's own methods.</summary>
    internal static class Steps
    {
        private static readonly Dictionary<string, Step> All = new Dictionary<string, Step>();

        /// <summary>An error of the caller's own function.</summary>
        internal sealed class Caller : Exception
        {
            internal Caller() : base("the caller's own error") { }
        }

        static Steps()
        {
            Own();
            OfLibrary();
            Root();
            OfContainers();
            Running();
            Files();
            Sessions();
            Streams();
            OfImages();
            Builds();
            OfNetworks();
            OfPlugins();
            Http();
        }

        internal static object Run(Scenarios run, Given given)
        {
            if (!All.TryGetValue(given.Text("do"), out Step step))
            {
                throw new Wrong("no step " + given.Text("do"));
            }
            run.Things.TryGetValue(given.Text("on") ?? "engine", out object engine);
            return step(run, (Engine)engine, given);
        }

        // ---- forms of results and arguments

        /// <summary>A step without a result.</summary>
        private static void Add(string name, Action<Scenarios, Engine, Given> step) =>
            All[name] = (run, engine, given) =>
            {
                step(run, engine, given);
                return null;
            };

        private static void Add(string name, Step step) => All[name] = step;

        private static Map Coded(int code) => new Map { ["code"] = (long)code };

        private static Map Changed(bool changed) => new Map { ["changed"] = changed };

        private static Map Made(string id) => new Map { ["id"] = id };

        /// <summary>The object with the step's deadline, scope and progress.</summary>
        private static S With<S>(Scenarios run, Given given, S made) where S : Scoped<S>
        {
            if (given.Has("scope"))
            {
                made = made.CancelledBy(((CancellationTokenSource)run.Things[given.Text("scope")]).Token);
            }
            if (given.Has("timeout_ms") && given.Text("do") != "events_next")
            {
                made = made.Within(TimeSpan.FromMilliseconds(given.Number("timeout_ms")));
            }
            if (given.Is("refuse"))
            {
                return made.OnProgress(record => throw new Caller());
            }
            if (!given.Has("progress"))
            {
                return made;
            }
            var records = new List<object>();
            run.Values[given.Text("progress")] = records;
            return made.OnProgress(record => records.Add(record.Document.Members));
        }

        private static byte[] Repeated(object value)
        {
            if (value is Map map)
            {
                return Encoding.UTF8.GetBytes(string.Concat(Enumerable.Repeat((string)map["repeat"], (int)(long)map["times"])));
            }
            return Encoding.UTF8.GetBytes((string)value ?? "");
        }

        private sealed class Broken : MemoryStream
        {
            public override int Read(byte[] buffer, int offset, int count) => throw new Caller();
        }

        /// <summary>The archive of a step.</summary>
        private static Stream SourceOf(Given given) =>
            given.Is("broken") ? new Broken() : new MemoryStream(given.Has("bytes") ? Repeated(given["bytes"]) : Tars.Of(given.Map("files")));

        private static object Parsed(string text) => text.StartsWith("{", StringComparison.Ordinal) ? Json.Read(text) : text.Trim();

        private static object Answer(Response response)
        {
            using (response)
            {
                return new Map { ["status"] = (long)response.Status, ["body"] = Parsed(response.Text()) };
            }
        }

        // ---- steps

        private static void Own()
        {
            Add("scope", (run, engine, given) => { run.Things[given.Text("as")] = new CancellationTokenSource(); });
            Add("cancel", (run, engine, given) => ((CancellationTokenSource)run.Things[given.Text("of")]).Cancel());
            Add("sleep", (run, engine, given) => Thread.Sleep((int)given.Number("ms")));
            Add("value", (run, engine, given) => given["value"]);
            Add("file_exists", (run, engine, given) => (object)(File.Exists(given.Text("path")) || Directory.Exists(given.Text("path"))));
            Add("spawn", (run, engine, given) => { run.Things[given.Text("as")] = OnThread(() => run.Run(given.List("steps"))); });
            Add("join", (run, engine, given) => Joined((Task)run.Things[given.Text("of")]));
            Add("parallel", (run, engine, given) =>
            {
                Task[] all = Enumerable.Range(0, (int)given.Number("times")).Select(one => OnThread(() => run.Aside(given.List("steps")))).ToArray();
                foreach (Task one in all)
                {
                    Joined(one);
                }
            });
        }

        private static Task OnThread(Action work) => Task.Factory.StartNew(work, TaskCreationOptions.LongRunning);

        private static void Joined(Task task)
        {
            try
            {
                task.GetAwaiter().GetResult();
            }
            catch (Exception failed)
            {
                throw new Wrong(failed.Message);
            }
        }

        private static void OfLibrary()
        {
            Add("version", (run, engine, given) => new Map { ["text"] = Library.Version, ["number"] = (long)Library.VersionNumber });
            Add("build_info", (run, engine, given) => Library.BuildInfo);
            Add("has_feature", (run, engine, given) => (object)Library.HasFeature(given.Text("name")));
            Add("status_name", (run, engine, given) => Library.StatusName((int)given.Number("code")));
            Add("set_log", (run, engine, given) =>
            {
                var records = new ConcurrentQueue<object>();
                run.Things[given.Text("as")] = records;
                Library.SetLog((LogLevel)given.Number("level"), (level, target, message) => records.Enqueue(message));
            });
            Add("unset_log", (run, engine, given) => Library.SetLog(LogLevel.Info, null));
            Add("log_records", (run, engine, given) => ((ConcurrentQueue<object>)run.Things[given.Text("of")]).ToList());
            Add("host_report", (run, engine, given) => Library.HostReport(given.Text("root")));
            Add("open", (run, engine, given) =>
            {
                string[] flags = given.Texts("flags");
                var options = new OpenOptions
                {
                    Configuration = given["config"],
                    RunDirectory = given.Text("run_dir"),
                    Existing = flags.Contains("existing"),
                    Lenient = flags.Contains("lenient"),
                    Ephemeral = flags.Contains("ephemeral"),
                };
                run.Things[given.Text("as")] = Engine.Open(given.Text("root"), options);
            });
            Add("ref", (run, engine, given) => { run.Things[given.Text("as")] = engine.Again(); });
            Add("close", (run, engine, given) => engine.Dispose());
        }

        private static void Root()
        {
            Add("engine_info", (run, engine, given) => With(run, given, engine).Info());
            Add("engine_version", (run, engine, given) => engine.Version());
            Add("engine_metrics", (run, engine, given) => engine.Metrics());
            Add("engine_disk_usage", (run, engine, given) =>
                engine.DiskUsage(given.Has("query") ? ((List<object>)given.Map("query")["type"]).Cast<string>().ToArray() : new string[0]));
            Add("engine_reload", (run, engine, given) =>
                engine.Reload(given.Texts("labels"), given.Map("settings").ToDictionary(one => one.Key, one => (string)one.Value)));
            Add("root_verify", (run, engine, given) => With(run, given, engine).Verify((bool)given.Map("query")["repair"]));
            Add("root_leftovers", (run, engine, given) => engine.Leftovers());
            Add("root_sweep", (run, engine, given) => engine.Sweep());
            Add("root_copy", (run, engine, given) => engine.CopyRoot(given.Text("dir"), given.Has("query") && (bool)given.Map("query")["pause"]));
            Add("root_import_docker", (run, engine, given) => engine.ImportDocker(given["query"]));
            Add("lease_hold", (run, engine, given) => { run.Things[given.Text("as")] = engine.Lease(given.Text("name")); });
            Add("lease_free", (run, engine, given) => ((Descriptor)run.Things[given.Text("of")]).Dispose());
        }

        private static Container Of(Scenarios run, Engine engine, Given given) => With(run, given, engine.Container(given.Text("id")));

        private static void OfContainers()
        {
            Add("container_create", (run, engine, given) =>
            {
                Container made = With(run, given, engine.Containers).Create(given["body"], given.Text("name"));
                return new Map { ["id"] = made.Id, ["Warnings"] = Matching.Plain(made.Warnings) };
            });
            Add("container_list", (run, engine, given) => engine.Containers.List(given["query"]));
            Add("container_prune", (run, engine, given) => engine.Containers.Prune(given["filters"]));
            Add("container_inspect", (run, engine, given) => Of(run, engine, given).Inspect(given.Is("size")));
            Add("container_explain", (run, engine, given) => Of(run, engine, given).Explain());
            Add("container_top", (run, engine, given) => Of(run, engine, given).Top(given.Text("ps_args")));
            Add("container_stats", (run, engine, given) =>
            {
                if (!given.Has("count"))
                {
                    return new[] { Of(run, engine, given).Stats() };
                }
                using (Records<Document> samples = Of(run, engine, given).Samples())
                {
                    return samples.Take((int)given.Number("count")).ToList();
                }
            });
            Add("container_update", (run, engine, given) => Of(run, engine, given).Update(given["body"]));
            Add("container_rename", (run, engine, given) => Of(run, engine, given).Rename(given.Text("name")));
            Add("container_remove", (run, engine, given) =>
                Of(run, engine, given).Remove((given.Is("force") ? Remove.Force : 0) | (given.Is("volumes") ? Remove.Volumes : 0)));
        }

        private static ProcessIo Io(Given given) =>
            given.Has("rows") ? new ProcessIo { Rows = (ushort)given.Number("rows"), Cols = (ushort)given.Number("cols") } : null;

        private static TimeSpan Grace(Given given) => TimeSpan.FromMilliseconds(given.Number("grace_ms"));

        private static Task<int> Exit(Scenarios run, Engine engine, Given given) =>
            Of(run, engine, given).WaitFor(given.Text("condition"), CancellationToken.None);

        private static void Running()
        {
            Add("container_start", (run, engine, given) =>
            {
                Container container = Of(run, engine, given);
                if (!given.Is("attach"))
                {
                    return Changed(container.Start());
                }
                run.Things[given.Text("as")] = container.StartAttached(Io(given));
                return Changed(true);
            });
            Add("container_attach", (run, engine, given) => { run.Things[given.Text("as")] = Of(run, engine, given).Attach(given["query"], Io(given)); });
            Add("container_stop", (run, engine, given) => Changed(Of(run, engine, given).Stop(Grace(given))));
            Add("container_stop_with", (run, engine, given) => Changed(Of(run, engine, given).StopWith(given["how"])));
            Add("container_restart", (run, engine, given) => Of(run, engine, given).Restart(Grace(given)));
            Add("container_restart_with", (run, engine, given) => Of(run, engine, given).RestartWith(given["how"]));
            Add("container_kill", (run, engine, given) => Of(run, engine, given).Kill(given.Text("signal")));
            Add("container_pause", (run, engine, given) => Of(run, engine, given).Pause());
            Add("container_unpause", (run, engine, given) => Of(run, engine, given).Unpause());
            Add("container_wait", (run, engine, given) => Coded(Exit(run, engine, given).GetAwaiter().GetResult()));
            Add("begin_wait", (run, engine, given) =>
            {
                Task<int> exit = Exit(run, engine, given);
                // A refusal comes with the task.
                if (given.Has("error"))
                {
                    exit.GetAwaiter().GetResult();
                }
                run.Things[given.Text("as")] = exit;
            });
            Add("pending_result", (run, engine, given) => Coded(((Task<int>)run.Things[given.Text("of")]).GetAwaiter().GetResult()));
            Add("container_pidfd", (run, engine, given) =>
            {
                Descriptor pidfd = Of(run, engine, given).Pidfd();
                var result = new Map { ["ended"] = pidfd.IsReadable };
                if (given.Has("as"))
                {
                    run.Things[given.Text("as")] = pidfd;
                }
                else
                {
                    pidfd.Dispose();
                }
                return result;
            });
            Add("pidfd_wait", (run, engine, given) => ((Descriptor)run.Things[given.Text("of")]).WaitReadable());
        }

        private static void Files()
        {
            Add("container_stat_path", (run, engine, given) => Of(run, engine, given).StatPath(given.Text("path")));
            Add("container_get_archive", (run, engine, given) =>
            {
                using (Archive archive = Of(run, engine, given).GetArchive(given.Text("path")))
                {
                    return new Map { ["files"] = Tars.Files(archive.Body), ["stat"] = archive.Stat.Members };
                }
            });
            Add("container_put_archive", (run, engine, given) => Of(run, engine, given).PutArchive(given.Text("path"), SourceOf(given), given["query"]));
            Add("container_export", (run, engine, given) =>
            {
                using (Stream body = Of(run, engine, given).Export())
                {
                    return new Map { ["files"] = Tars.Files(body) };
                }
            });
            Add("container_changes", (run, engine, given) => Of(run, engine, given).Changes());
            Add("container_commit", (run, engine, given) => Made(Of(run, engine, given).Commit(given["query"], given["config"])));
        }

        private static Session SessionOf(Scenarios run, Given given) => With(run, given, (Session)run.Things[given.Text("of")]);

        private static object ReadUntil(Scenarios run, Given given)
        {
            if (!run.Seen.TryGetValue(given.Text("of"), out Map seen))
            {
                seen = new Map { ["stdout"] = "", ["stderr"] = "" };
                run.Seen[given.Text("of")] = seen;
            }
            string[] names = given.Has("channel") ? new[] { given.Text("channel") } : new[] { "stdout", "stderr" };
            Func<bool> there = () => given.Has("until") && names.Any(name => ((string)seen[name]).Contains(given.Text("until")));
            while (!there())
            {
                Piece piece = SessionOf(run, given).Read();
                if (piece == null)
                {
                    break;
                }
                seen[piece.Channel == Channel.Stderr ? "stderr" : "stdout"] += piece.Text;
            }
            if (given.Has("until") && !there())
            {
                throw new Wrong("the output ended without " + given.Text("until") + ": " + Json.Write(seen));
            }
            return seen;
        }

        private static void Sessions()
        {
            Add("session_read", (run, engine, given) => ReadUntil(run, given));
            Add("session_write", (run, engine, given) =>
            {
                byte[] data = Repeated(given["data"]);
                SessionOf(run, given).Write(data);
                return new Map { ["count"] = (long)data.Length };
            });
            Add("session_close_stdin", (run, engine, given) => SessionOf(run, given).CloseStdin());
            Add("session_streams", (run, engine, given) =>
            {
                Output output = SessionOf(run, given).Communicate(new MemoryStream(Repeated(given["input"])));
                return new Map { ["stdout"] = output.Text, ["stderr"] = output.ErrorText };
            });
            Add("session_fd", (run, engine, given) => (object)SessionOf(run, given).Has((Channel)Enum.Parse(typeof(Channel), given.Text("channel"), true)));
            Add("session_resize", (run, engine, given) => SessionOf(run, given).Resize((ushort)given.Number("rows"), (ushort)given.Number("cols")));
            Add("session_wait", (run, engine, given) => Coded(SessionOf(run, given).Wait()));
            Add("session_free", (run, engine, given) => SessionOf(run, given).Dispose());
            Add("exec_create", (run, engine, given) => Made(Of(run, engine, given).Exec(given["body"]).Id));
            Add("exec_start", (run, engine, given) =>
            {
                Exec exec = With(run, given, engine.Containers.Exec(given.Text("id")));
                if (given.Is("attach"))
                {
                    run.Things[given.Text("as")] = exec.StartAttached(Io(given));
                }
                else
                {
                    exec.Start();
                }
            });
            Add("exec_wait", (run, engine, given) => Coded(With(run, given, engine.Containers.Exec(given.Text("id"))).Wait()));
            Add("exec_inspect", (run, engine, given) => engine.Containers.Exec(given.Text("id")).Inspect());
        }

        private static Map Line(LogLine line) =>
            new Map { ["channel"] = line.Channel == Channel.Stderr ? "stderr" : "stdout", ["text"] = line.Text };

        private static Records<LogLine> Logs(Scenarios run, Given given) => With(run, given, (Records<LogLine>)run.Things[given.Text("of")]);

        private static Events EventsOf(Scenarios run, Given given) => With(run, given, (Events)run.Things[given.Text("of")]);

        private static void Streams()
        {
            Add("container_logs", (run, engine, given) =>
            {
                using (Records<LogLine> logs = Of(run, engine, given).Logs(given["query"]))
                {
                    return logs.Select(Line).ToList();
                }
            });
            Add("logs_open", (run, engine, given) => { run.Things[given.Text("as")] = Of(run, engine, given).Logs(given["query"]); });
            Add("logs_next", (run, engine, given) => Line(Logs(run, given).Next()));
            Add("stream_fd", (run, engine, given) => (object)(Logs(run, given).Fd() >= 0));
            Add("stream_lost", (run, engine, given) => (object)Logs(run, given).Lost());
            Add("stream_free", (run, engine, given) => Logs(run, given).Dispose());
            Add("events_open", (run, engine, given) => { run.Things[given.Text("as")] = engine.Events(given["query"]); });
            Add("events_fd", (run, engine, given) => (object)(EventsOf(run, given).Fd() >= 0));
            Add("events_next", (run, engine, given) =>
            {
                Event found = given.Has("timeout_ms") ? EventsOf(run, given).Poll() : EventsOf(run, given).Next();
                return found?.Document.Members ?? (object)new Map { [given.Has("timeout_ms") ? "again" : "done"] = true };
            });
            Add("events_until", (run, engine, given) =>
            {
                var actions = new List<object>();
                foreach (Event one in EventsOf(run, given))
                {
                    actions.Add(one.Action);
                    if (one.Action == given.Text("action"))
                    {
                        return actions;
                    }
                }
                throw new Wrong("the events end at " + Json.Write(actions));
            });
            Add("events_free", (run, engine, given) => EventsOf(run, given).Dispose());
        }

        private static Images ImagesOf(Scenarios run, Engine engine, Given given) => With(run, given, engine.Images);

        private static void OfImages()
        {
            Add("image_list", (run, engine, given) => engine.Images.List(given["query"]));
            Add("image_inspect", (run, engine, given) => engine.Images.Inspect(given.Text("ref")));
            Add("image_history", (run, engine, given) => engine.Images.History(given.Text("ref")));
            Add("image_tag", (run, engine, given) => engine.Images.Tag(given.Text("ref"), given.Text("new_ref")));
            Add("image_remove", (run, engine, given) => ImagesOf(run, engine, given).Remove(
                given.Text("ref"), (given.Is("force") ? ImageRemove.Force : 0) | (given.Is("no_prune") ? ImageRemove.NoPrune : 0)));
            Add("image_prune", (run, engine, given) => engine.Images.Prune(given["filters"]));
            Add("image_save", (run, engine, given) =>
            {
                using (Stream body = engine.Images.Save(given.Text("layout"), given.Texts("names")))
                using (FileStream file = File.Create(given.Text("file") ?? run.Dir + "/none.tar"))
                {
                    body.CopyTo(file);
                    return new Map { ["bytes"] = file.Length };
                }
            });
            Add("image_pull", (run, engine, given) => Made(ImagesOf(run, engine, given).Pull(given.Text("ref"), null, given.Text("platform"))));
            Add("image_push", (run, engine, given) => ImagesOf(run, engine, given).Push(given.Text("ref")));
            Add("image_search", (run, engine, given) => engine.Images.Search(given["query"]));
            Add("registry_inspect", (run, engine, given) => engine.Images.InspectRemote(given.Text("ref")));
            Add("registry_auth", (run, engine, given) => engine.Images.CheckLogin(given["auth"]));
        }

        private static void Builds()
        {
            Add("build_prune", (run, engine, given) => engine.Images.PruneCaches(given["filters"]));
            Add("image_load", (run, engine, given) => given.Has("path")
                ? ImagesOf(run, engine, given).Load(given.Text("path"))
                : ImagesOf(run, engine, given).Load(SourceOf(given)));
            Add("image_import", (run, engine, given) => Made(ImagesOf(run, engine, given).Import(SourceOf(given), given["query"])));
            Add("image_build", (run, engine, given) => Made(ImagesOf(run, engine, given).Build(SourceOf(given), given["query"])));
            Add("image_build_dir", (run, engine, given) =>
            {
                string context = Directory.CreateDirectory(run.Dir + "/context").FullName;
                foreach (KeyValuePair<string, object> one in given.Map("files"))
                {
                    File.WriteAllText(Path.Combine(context, one.Key), (string)one.Value);
                }
                return Made(ImagesOf(run, engine, given).BuildDirectory(context, given["query"]));
            });
        }

        private static void OfNetworks()
        {
            Add("volume_create", (run, engine, given) => engine.Volumes.Create(given["body"]));
            Add("volume_list", (run, engine, given) => new Map { ["Volumes"] = Matching.Plain(engine.Volumes.List(given["query"])) });
            Add("volume_inspect", (run, engine, given) => engine.Volumes.Inspect(given.Text("name")));
            Add("volume_remove", (run, engine, given) => engine.Volumes.Remove(given.Text("name")));
            Add("volume_prune", (run, engine, given) => engine.Volumes.Prune(given["filters"]));
            Add("network_create", (run, engine, given) => Made(engine.Networks.Create(given["body"])));
            Add("network_list", (run, engine, given) => engine.Networks.List(given["query"]));
            Add("network_inspect", (run, engine, given) => engine.Networks.Inspect(given.Text("id")));
            Add("network_connect", (run, engine, given) =>
            {
                given.Map("body").TryGetValue("EndpointConfig", out object endpoint);
                engine.Networks.Connect(given.Text("id"), (string)given.Map("body")["Container"], endpoint);
            });
            Add("network_disconnect", (run, engine, given) => engine.Networks.Disconnect(given.Text("id"), (string)given.Map("body")["Container"]));
            Add("network_remove", (run, engine, given) => engine.Networks.Remove(given.Text("id")));
            Add("network_prune", (run, engine, given) => engine.Networks.Prune(given["filters"]));
            Add("network_repair", (run, engine, given) => engine.Networks.Repair());
            Add("network_release", (run, engine, given) => engine.Networks.Release());
        }

        private static Plugins PluginsOf(Scenarios run, Engine engine, Given given) => With(run, given, engine.Plugins);

        private static void OfPlugins()
        {
            Add("plugin_list", (run, engine, given) => engine.Plugins.List(given["query"]));
            Add("plugin_inspect", (run, engine, given) => engine.Plugins.Inspect(given.Text("name")));
            Add("plugin_privileges", (run, engine, given) => PluginsOf(run, engine, given).Privileges(given.Text("remote"), given["auth"]));
            Add("plugin_pull", (run, engine, given) => Made(PluginsOf(run, engine, given).Pull(given["body"])));
            Add("plugin_upgrade", (run, engine, given) => PluginsOf(run, engine, given).Upgrade(given.Text("name"), given["body"]));
            Add("plugin_enable", (run, engine, given) =>
                PluginsOf(run, engine, given).Enable(given.Text("name"), TimeSpan.FromSeconds(given.Has("seconds") ? given.Number("seconds") : 0)));
            Add("plugin_disable", (run, engine, given) => PluginsOf(run, engine, given).Disable(given.Text("name"), given.Is("force")));
            Add("plugin_remove", (run, engine, given) => PluginsOf(run, engine, given).Remove(given.Text("name"), given.Is("force")));
            Add("plugin_set", (run, engine, given) => engine.Plugins.Set(given.Text("name"), given.Texts("changes")));
        }

        private static void Http()
        {
            Add("http_request", (run, engine, given) =>
            {
                Dictionary<string, string> headers = given.Map("headers")?.ToDictionary(one => one.Key, one => (string)one.Value);
                byte[] body = given.Has("body") ? Encoding.UTF8.GetBytes(Json.Write(given["body"])) : null;
                return Answer(With(run, given, engine).Request(given.Text("method"), given.Text("target"), headers, body));
            });
            Add("http_connect", (run, engine, given) =>
            {
                using (Connection connection = engine.Connect())
                {
                    return Answer(connection.Request("GET", given.Text("target")));
                }
            });
            Add("http_get_unix", (run, engine, given) => Unix(given.Text("path"), given.Text("target")));
            Add("http_serve", (run, engine, given) => { run.Things[given.Text("as")] = engine.Serve(given["options"]); });
            Add("http_server_addresses", (run, engine, given) => ((Server)run.Things[given.Text("of")]).Addresses());
            Add("http_server_shutdown", (run, engine, given) => With(run, given, (Server)run.Things[given.Text("of")]).Shutdown(Grace(given)));
            Add("http_server_free", (run, engine, given) => ((Server)run.Things[given.Text("of")]).Dispose());
        }

        /// <summary>A request over a socket, by .NET alone.</summary>
        private static object Unix(string path, string target)
        {
            using (var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
            {
                socket.Connect(new UnixDomainSocketEndPoint(path));
                socket.Send(Encoding.ASCII.GetBytes("GET " + target + " HTTP/1.0\r\nHost: coracle\r\n\r\n"));
                using (var reader = new StreamReader(new NetworkStream(socket), Encoding.UTF8))
                {
                    string all = reader.ReadToEnd();
                    return new Map { ["status"] = long.Parse(all.Split(' ')[1]), ["body"] = all.Substring(all.IndexOf("\r\n\r\n", StringComparison.Ordinal) + 4).Trim() };
                }
            }
        }
    }
}
