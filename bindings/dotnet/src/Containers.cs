using System;
using System.Collections.Generic;
using System.IO;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>The containers of an engine.</summary>
    public sealed class Containers : Scoped<Containers>
    {
        private readonly EngineHandle engine;

        internal Containers(EngineHandle engine, Bounds bounds) : base(bounds)
        {
            this.engine = engine;
        }

        internal override Containers With(Bounds other) => new Containers(engine, other);

        /// <summary>Creates a container of a body of POST /containers/create. name: null: the engine makes one up.</summary>
        public Container Create(object body, string name = null) => Creating(body, name).Now();

        /// <summary>Create, for which no thread waits.</summary>
        public Task<Container> CreateAsync(object body, string name = null, CancellationToken cancellation = default(CancellationToken)) =>
            Creating(body, name).Begin(cancellation);

        private Work<Container> Creating(object body, string name) =>
            Working(
                call => Raw.ContainerCreate(call, engine, name, Document.Write(body)),
                frame => new Container(engine, frame.Id(), Document.Parse(frame.Json()).Texts("Warnings"), Bounds));

        /// <summary>The container of an id, a name, or the beginning of an id; it asks nothing.</summary>
        public Container Get(string id) => new Container(engine, id, new string[0], Bounds);

        /// <summary>The further process of an id; it asks nothing.</summary>
        public Exec Exec(string id) => new Exec(engine, id, Bounds);

        /// <summary>
        /// Lists containers, those that run, newest first: the documents of GET /containers/json. query: a document with any of "all", "limit",
        /// "size", "since", "before", "filters".
        /// </summary>
        public IReadOnlyList<Document> List(object query = null) =>
            DocumentsOf(call => Raw.ContainerList(call, engine, Document.Write(query)));

        /// <summary>Removes the containers that do not run, or those of them that the filters of a list choose.</summary>
        public Document Prune(object filters = null) => Pruning(filters).Now();

        /// <summary>Prune, for which no thread waits.</summary>
        public Task<Document> PruneAsync(object filters = null, CancellationToken cancellation = default(CancellationToken)) =>
            Pruning(filters).Begin(cancellation);

        private Work<Document> Pruning(object filters) => Describing(call => Raw.ContainerPrune(call, engine, Document.Write(filters)));
    }

    /// <summary>A container by its id or name; it outlives this object and the program.</summary>
    public sealed class Container : Scoped<Container>
    {
        private readonly EngineHandle engine;

        internal Container(EngineHandle engine, string id, IReadOnlyList<string> warnings, Bounds bounds) : base(bounds)
        {
            this.engine = engine;
            Id = id;
            Warnings = warnings;
        }

        internal override Container With(Bounds other) => new Container(engine, Id, Warnings, other);

        /// <summary>The id, or the name by which the container was asked for.</summary>
        public string Id { get; }

        /// <summary>The remarks of the engine about its creation.</summary>
        public IReadOnlyList<string> Warnings { get; }

        /// <summary>Describes the container in full: the document of GET /containers/{id}/json. size: with SizeRw and SizeRootFs.</summary>
        public Document Inspect(bool size = false) => DocumentOf(call => Raw.ContainerInspect(call, engine, Id, size ? 1 : 0));

        /// <summary>Describes the container's launch in words, with the kernel's answer to the step at which the last start failed.</summary>
        public Document Explain() => DocumentOf(call => Raw.ContainerExplain(call, engine, Id));

        /// <summary>Starts the container, detached; false: it ran already.</summary>
        public bool Start() => Starting.Now();

        /// <summary>Start, for which no thread waits.</summary>
        public Task<bool> StartAsync(CancellationToken cancellation = default(CancellationToken)) => Starting.Begin(cancellation);

        private Work<bool> Starting => Changing(call => Raw.ContainerStart(call, engine, Id, null));

        /// <summary>
        /// Starts the container with its streams in hand from the first byte on. Of a container that runs already it is Attach. io: a terminal's
        /// size, or descriptors of the caller's.
        /// </summary>
        public Session StartAttached(ProcessIo io = null) => StartingAttached(io).Now() ?? Attach(null, io);

        /// <summary>StartAttached, for which no thread waits.</summary>
        public async Task<Session> StartAttachedAsync(ProcessIo io = null, CancellationToken cancellation = default(CancellationToken)) =>
            await StartingAttached(io).Begin(cancellation).ConfigureAwait(false) ??
            await Attaching(null, io).Begin(cancellation).ConfigureAwait(false);

        private Work<Session> StartingAttached(ProcessIo io) =>
            Working(call => Raw.ContainerStart(call, engine, Id, io ?? new ProcessIo()), frame => Session.Of(frame, Bounds));

        /// <summary>Attaches; query: a document with any of "stdin", "stdout", "stderr", "wait"; none of the streams: all.</summary>
        public Session Attach(object query = null, ProcessIo io = null) => Attaching(query, io).Now();

        /// <summary>Attach, for which no thread waits.</summary>
        public Task<Session> AttachAsync(
            object query = null, ProcessIo io = null, CancellationToken cancellation = default(CancellationToken)) =>
            Attaching(query, io).Begin(cancellation);

        private Work<Session> Attaching(object query, ProcessIo io) =>
            Working(
                call => Raw.ContainerAttach(call, engine, Id, io ?? new ProcessIo(), Document.Write(query)), frame => Session.Of(frame, Bounds));

        /// <summary>Stops the container: its stop signal and, if it still runs after grace, SIGKILL (grace below zero: never). False: it did not run.</summary>
        public bool Stop(TimeSpan grace) => Stopping(grace).Now();

        /// <summary>Stop, for which no thread waits.</summary>
        public Task<bool> StopAsync(TimeSpan grace, CancellationToken cancellation = default(CancellationToken)) =>
            Stopping(grace).Begin(cancellation);

        private Work<bool> Stopping(TimeSpan grace) => Changing(call => Raw.ContainerStop(call, engine, Id, Grace(grace)));

        /// <summary>Stops the container with its own stop signal and time.</summary>
        public bool Stop() => StopWith(new { });

        /// <summary>Stop, for which no thread waits.</summary>
        public Task<bool> StopAsync(CancellationToken cancellation = default(CancellationToken)) => StopWithAsync(new { }, cancellation);

        /// <summary>Stops the container; how: a document with any of "signal" and "grace_ms" (below 0: SIGKILL is never sent).</summary>
        public bool StopWith(object how) => StoppingWith(how).Now();

        /// <summary>StopWith, for which no thread waits.</summary>
        public Task<bool> StopWithAsync(object how, CancellationToken cancellation = default(CancellationToken)) =>
            StoppingWith(how).Begin(cancellation);

        private Work<bool> StoppingWith(object how) => Changing(call => Raw.ContainerStopWith(call, engine, Id, Document.Write(how)));

        /// <summary>Stops the container if it runs, and starts it.</summary>
        public void Restart(TimeSpan grace) => Restarting(grace).Now();

        /// <summary>Restart, for which no thread waits.</summary>
        public Task RestartAsync(TimeSpan grace, CancellationToken cancellation = default(CancellationToken)) =>
            Restarting(grace).Begin(cancellation);

        private Work<long> Restarting(TimeSpan grace) => Doing(call => Raw.ContainerRestart(call, engine, Id, Grace(grace)));

        /// <summary>The same; how: as of <see cref="StopWith"/>.</summary>
        public void RestartWith(object how) => RestartingWith(how).Now();

        /// <summary>RestartWith, for which no thread waits.</summary>
        public Task RestartWithAsync(object how, CancellationToken cancellation = default(CancellationToken)) =>
            RestartingWith(how).Begin(cancellation);

        private Work<long> RestartingWith(object how) => Doing(call => Raw.ContainerRestartWith(call, engine, Id, Document.Write(how)));

        private static long Grace(TimeSpan grace) => grace < TimeSpan.Zero ? -1 : Bounds.Millis(grace);

        /// <summary>Sends a signal, a name or a number; null: SIGKILL, and waits for its effect.</summary>
        public void Kill(string signal = null) => Killing(signal).Now();

        /// <summary>Kill, for which no thread waits.</summary>
        public Task KillAsync(string signal = null, CancellationToken cancellation = default(CancellationToken)) =>
            Killing(signal).Begin(cancellation);

        private Work<long> Killing(string signal) => Doing(call => Raw.ContainerKill(call, engine, Id, signal));

        /// <summary>Freezes the container's processes.</summary>
        public void Pause() => Pausing.Now();

        /// <summary>Pause, for which no thread waits.</summary>
        public Task PauseAsync(CancellationToken cancellation = default(CancellationToken)) => Pausing.Begin(cancellation);

        private Work<long> Pausing => Doing(call => Raw.ContainerPause(call, engine, Id));

        /// <summary>Thaws the container's processes.</summary>
        public void Unpause() => Unpausing.Now();

        /// <summary>Unpause, for which no thread waits.</summary>
        public Task UnpauseAsync(CancellationToken cancellation = default(CancellationToken)) => Unpausing.Begin(cancellation);

        private Work<long> Unpausing => Doing(call => Raw.ContainerUnpause(call, engine, Id));

        /// <summary>Waits for a condition: the exit code, 128 + n if signal n ended the process.</summary>
        public int Wait(Condition condition = Condition.NotRunning) => Ending(NameOf(condition)).Wait();

        /// <summary>
        /// The exit code, for which no thread waits. It misses no end after this call: ask for NextExit, start the container, and await. The
        /// token ends the wait, and leaves the container alone.
        /// </summary>
        public Task<int> WaitAsync(Condition condition = Condition.NotRunning, CancellationToken cancellation = default(CancellationToken)) =>
            WaitFor(NameOf(condition), cancellation);

        internal Task<int> WaitFor(string condition, CancellationToken cancellation) => Ending(condition).BeginWait(cancellation);

        private Work<int> Ending(string condition) => Exiting(call => Raw.ContainerWait(call, engine, Id, condition));

        private static string NameOf(Condition condition) =>
            condition == Condition.NextExit ? "next-exit" : condition == Condition.Removed ? "removed" : "not-running";

        /// <summary>A descriptor of the container's first process, which is readable when the process has ended.</summary>
        public Descriptor Pidfd() =>
            InCall(call =>
            {
                Raw.ContainerPidfd(call, engine, Id);
                return new Descriptor(call.OutNumber);
            });

        /// <summary>Removes the container.</summary>
        public void Remove(Remove how = Coracle.Remove.None) => Removing(how).Now();

        /// <summary>Remove, for which no thread waits.</summary>
        public Task RemoveAsync(Remove how = Coracle.Remove.None, CancellationToken cancellation = default(CancellationToken)) =>
            Removing(how).Begin(cancellation);

        private Work<long> Removing(Remove how) => Doing(call => Raw.ContainerRemove(call, engine, Id, (ulong)how));

        /// <summary>Gives the container another name.</summary>
        public void Rename(string name) => Do(call => Raw.ContainerRename(call, engine, Id, name));

        /// <summary>Lists the container's processes, as ps does with these arguments (-ef): "Titles" and "Processes".</summary>
        public Document Top(string arguments = null) => DocumentOf(call => Raw.ContainerTop(call, engine, Id, arguments));

        /// <summary>Changes limits and restart policy by a body of POST /containers/{id}/update; the answer has warnings.</summary>
        public IReadOnlyList<string> Update(object body) =>
            DocumentOf(call => Raw.ContainerUpdate(call, engine, Id, Document.Write(body))).Texts("Warnings");

        /// <summary>A sample of the resources that the container uses now: the document of GET /containers/{id}/stats.</summary>
        public Document Stats()
        {
            using (Records<Document> all = Samples("{\"stream\": false, \"one-shot\": true}"))
            {
                return all.Next();
            }
        }

        /// <summary>A sample at once and then one a second, until the container is removed.</summary>
        public Records<Document> Samples() => Samples("{\"stream\": true}");

        private Records<Document> Samples(string query) =>
            new Records<Document>(
                new StreamHandle(HandleOf(call => Raw.ContainerStats(call, engine, Id, query))), Bounds, Records.Sample);

        /// <summary>
        /// Lines of the log; query: a document with any of "stdout", "stderr", "follow", "tail", "since" (a time, or seconds since 1970 with
        /// decimals), "timestamps", "details".
        /// </summary>
        public Records<LogLine> Logs(object query = null) =>
            new Records<LogLine>(
                new StreamHandle(HandleOf(call => Raw.ContainerLogs(call, engine, Id, Document.Query(query)))), Bounds, call => new LogLine(call));

        /// <summary>Describes the file at a path of the container: "name", "size", "mode", "mtime", "linkTarget".</summary>
        public Document StatPath(string path) => DocumentOf(call => Raw.ContainerStatPath(call, engine, Id, path));

        /// <summary>Copies files out of the container: a tar, with the description of the file at the path.</summary>
        public Archive GetArchive(string path) => GettingArchive(path).Now();

        /// <summary>GetArchive, for which no thread waits.</summary>
        public Task<Archive> GetArchiveAsync(string path, CancellationToken cancellation = default(CancellationToken)) =>
            GettingArchive(path).Begin(cancellation);

        private Work<Archive> GettingArchive(string path) =>
            Working(
                call => Raw.ContainerGetArchive(call, engine, Id, path),
                frame => new Archive(new BodyStream(new StreamHandle(frame.OutHandle), Bounds), Document.Parse(frame.Json())));

        /// <summary>
        /// Extracts a tar, plain or compressed, into a directory of the container; query: a document with any of "noOverwriteDirNonDir",
        /// "copyUIDGID".
        /// </summary>
        public void PutArchive(string path, Stream archive, object query = null) => Putting(path, Source.From(archive), query).Now();

        /// <summary>The same of a file, which the library reads itself.</summary>
        public void PutArchive(string path, string archive, object query = null) => Putting(path, Source.From(archive), query).Now();

        /// <summary>PutArchive on a thread of its own, which reads the stream.</summary>
        public Task PutArchiveAsync(string path, Stream archive, object query = null, CancellationToken cancellation = default(CancellationToken)) =>
            Putting(path, Source.From(archive), query).OnThread(cancellation);

        /// <summary>PutArchive of a file, for which no thread waits.</summary>
        public Task PutArchiveAsync(string path, string archive, object query = null, CancellationToken cancellation = default(CancellationToken)) =>
            Putting(path, Source.From(archive), query).Begin(cancellation);

        private Work<long> Putting(string path, Func<Source> archive, object query) =>
            Doing(Source.Using(archive, (call, source) => Raw.ContainerPutArchive(call, engine, Id, path, Document.Write(query), source)));

        /// <summary>The container's whole file system as a tar, without binds and volumes.</summary>
        public Stream Export() => Exporting.Now();

        /// <summary>Export, for which no thread waits.</summary>
        public Task<Stream> ExportAsync(CancellationToken cancellation = default(CancellationToken)) => Exporting.Begin(cancellation);

        private Work<Stream> Exporting => Streaming(call => Raw.ContainerExport(call, engine, Id));

        /// <summary>Lists the files that the container changed, compared with its image: "Path", "Kind" (0 modified, 1 added, 2 deleted).</summary>
        public IReadOnlyList<Document> Changes() => DocumentsOf(call => Raw.ContainerChanges(call, engine, Id));

        /// <summary>
        /// Makes an image of the container, without its volumes: the image's id. query: a document with any of "repo", "tag", "comment", "author",
        /// "pause", "changes"; config: a configuration that is laid over the container's.
        /// </summary>
        public string Commit(object query, object config = null) => Committing(query, config).Now();

        /// <summary>Commit, for which no thread waits.</summary>
        public Task<string> CommitAsync(object query, object config = null, CancellationToken cancellation = default(CancellationToken)) =>
            Committing(query, config).Begin(cancellation);

        private Work<string> Committing(object query, object config) =>
            Naming(call => Raw.ContainerCommit(call, engine, Id, Document.Write(query), Document.Write(config)));

        /// <summary>Prepares a further process of a body of POST /containers/{id}/exec: "Cmd", "AttachStdout", "Tty", ...</summary>
        public Exec Exec(object body) => new Exec(engine, IdOf(call => Raw.ExecCreate(call, engine, Id, Document.Write(body))), Bounds);

        /// <summary>Runs a command in the container to its end.</summary>
        public Output Run(params string[] command)
        {
            using (Session session = Exec(Running(command)).StartAttached())
            {
                return session.Communicate();
            }
        }

        /// <summary>Run, for which no thread waits. The token ends the wait, and leaves the command alone.</summary>
        public async Task<Output> RunAsync(string[] command, CancellationToken cancellation = default(CancellationToken))
        {
            using (Session session = await Exec(Running(command)).StartAttachedAsync(null, cancellation).ConfigureAwait(false))
            {
                return await session.CommunicateAsync("", cancellation).ConfigureAwait(false);
            }
        }

        private static object Running(string[] command) => new { Cmd = command, AttachStdout = true, AttachStderr = true };
    }

    /// <summary>A further process of a container, by its id.</summary>
    public sealed class Exec : Scoped<Exec>
    {
        private readonly EngineHandle engine;

        internal Exec(EngineHandle engine, string id, Bounds bounds) : base(bounds)
        {
            this.engine = engine;
            Id = id;
        }

        internal override Exec With(Bounds other) => new Exec(engine, Id, other);

        /// <summary>The id.</summary>
        public string Id { get; }

        /// <summary>Starts the process, detached.</summary>
        public void Start() => Starting.Now();

        /// <summary>Start, for which no thread waits.</summary>
        public Task StartAsync(CancellationToken cancellation = default(CancellationToken)) => Starting.Begin(cancellation);

        private Work<long> Starting => Doing(call => Raw.ExecStart(call, engine, Id, null));

        /// <summary>Starts the process with its streams in hand; io: a terminal's size, or descriptors of the caller's.</summary>
        public Session StartAttached(ProcessIo io = null) => StartingAttached(io).Now();

        /// <summary>StartAttached, for which no thread waits.</summary>
        public Task<Session> StartAttachedAsync(ProcessIo io = null, CancellationToken cancellation = default(CancellationToken)) =>
            StartingAttached(io).Begin(cancellation);

        private Work<Session> StartingAttached(ProcessIo io) =>
            Working(call => Raw.ExecStart(call, engine, Id, io ?? new ProcessIo()), frame => Session.Of(frame, Bounds));

        /// <summary>Waits for the process's end: its exit code, 128 + n if signal n ended it.</summary>
        public int Wait() => Ending.Wait();

        /// <summary>The exit code, for which no thread waits.</summary>
        public Task<int> WaitAsync(CancellationToken cancellation = default(CancellationToken)) => Ending.BeginWait(cancellation);

        private Work<int> Ending => Exiting(call => Raw.ExecWait(call, engine, Id));

        /// <summary>Describes the process in full: the document of GET /exec/{id}/json.</summary>
        public Document Inspect() => DocumentOf(call => Raw.ExecInspect(call, engine, Id));
    }
}
