using System;
using System.Collections.Generic;
using System.Net.Http;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>An opened root, for any number of threads. Disposing it leaves its containers running.</summary>
    public sealed class Engine : Scoped<Engine>, IDisposable
    {
        private readonly EngineHandle handle;

        private Engine(EngineHandle handle, Bounds bounds) : base(bounds)
        {
            this.handle = handle;
        }

        internal override Engine With(Bounds other) => new Engine(handle, other);

        /// <summary>
        /// Opens a root, a directory, and makes it if it is not there. A handle that is forgotten is closed by the garbage collector; one of
        /// <see cref="OpenOptions.Ephemeral"/>, whose end ends containers, stays open until it is disposed or the program ends.
        /// </summary>
        public static Engine Open(string root, OpenOptions options = null)
        {
            using (var call = new Call(Bounds.None))
            {
                Raw.Open(call, root, options);
                return new Engine(new EngineHandle(call.OutHandle, options != null && options.Ephemeral), Bounds.None);
            }
        }

        /// <summary>The containers.</summary>
        public Containers Containers => new Containers(handle, Bounds);

        /// <summary>The images.</summary>
        public Images Images => new Images(handle, Bounds);

        /// <summary>The networks.</summary>
        public Networks Networks => new Networks(handle, Bounds);

        /// <summary>The volumes.</summary>
        public Volumes Volumes => new Volumes(handle, Bounds);

        /// <summary>The managed plugins.</summary>
        public Plugins Plugins => new Plugins(handle, Bounds);

        /// <summary>Whether this handle was disposed.</summary>
        public bool IsClosed => handle.IsEnded;

        /// <summary>The container of an id, a name, or the beginning of an id; it asks nothing.</summary>
        public Container Container(string id) => Containers.Get(id);

        /// <summary>Another handle of the same engine, which stays open when this one is disposed.</summary>
        public Engine Again() => Again(handle.IsEphemeral);

        /// <summary>Another handle; stays: not even the garbage collector ends it.</summary>
        internal Engine Again(bool stays) => InCall(call => new Engine(new EngineHandle(Raw.Ref(call, handle), stays), Bounds));

        /// <summary>Describes the engine and the host: the document of GET /info.</summary>
        public Document Info() => DocumentOf(call => Raw.EngineInfo(call, handle));

        /// <summary>The versions of the library, the API and the kernel.</summary>
        public Document Version() => DocumentOf(call => Raw.EngineVersion(call, handle));

        /// <summary>Counts the bytes that images, containers and volumes take; kinds: "image", "container", "volume"; none: all.</summary>
        public Document DiskUsage(params string[] kinds) => CountingBytes(kinds).Now();

        /// <summary>DiskUsage, for which no thread waits.</summary>
        public Task<Document> DiskUsageAsync(string[] kinds = null, CancellationToken cancellation = default(CancellationToken)) =>
            CountingBytes(kinds ?? new string[0]).Begin(cancellation);

        private Work<Document> CountingBytes(string[] kinds) =>
            Describing(call => Raw.EngineDiskUsage(call, handle, Document.Write(new { type = kinds })));

        /// <summary>Counts the root's objects, and this engine's work since it was opened.</summary>
        public Document Metrics() => DocumentOf(call => Raw.EngineMetrics(call, handle));

        /// <summary>Replaces the engine's labels, and reports to all followers of events that settings were read again; null: none.</summary>
        public void Reload(IEnumerable<string> labels, IDictionary<string, string> settings) =>
            Do(call => Raw.EngineReload(call, handle, Document.Write(labels), Document.Write(settings)));

        /// <summary>
        /// Holds a lease: containers with the label "coracle.lease" of that name end when no process has its descriptor open any more. It is held
        /// until it is disposed or the program ends, also if the program keeps no reference to it: the garbage collector ends no container.
        /// </summary>
        public Descriptor Lease(string name) =>
            InCall(call =>
            {
                Raw.LeaseHold(call, handle, name);
                return new Descriptor(call.OutNumber).UntilDisposed();
            });

        /// <summary>
        /// Follows the events of the root: no event after this call is missed silently. query: a document with any of "since", "until"
        /// (a time, or seconds since 1970 with decimals), "after", "filters".
        /// </summary>
        public Events Events(object query = null) =>
            new Events(new EventsHandle(HandleOf(call => Raw.EventsOpen(call, handle, Document.Query(query)))), Bounds);

        /// <summary>Reads every layer and image of the store; the member "Damage" of the answer lists damaged ones.</summary>
        public Document Verify(bool repair = false) => Verifying(repair).Now();

        /// <summary>Verify, for which no thread waits.</summary>
        public Task<Document> VerifyAsync(bool repair = false, CancellationToken cancellation = default(CancellationToken)) =>
            Verifying(repair).Begin(cancellation);

        private Work<Document> Verifying(bool repair) => Describing(call => Raw.RootVerify(call, handle, Document.Write(new { repair })));

        /// <summary>Lists files that removals could not remove.</summary>
        public IReadOnlyList<Document> Leftovers() => DocumentsOf(call => Raw.RootLeftovers(call, handle));

        /// <summary>Tries again to remove files that removals left; the answer has those that stay.</summary>
        public IReadOnlyList<Document> Sweep() => Sweeping.Now();

        /// <summary>Sweep, for which no thread waits.</summary>
        public Task<IReadOnlyList<Document>> SweepAsync(CancellationToken cancellation = default(CancellationToken)) => Sweeping.Begin(cancellation);

        private Work<IReadOnlyList<Document>> Sweeping => Listing(call => Raw.RootSweep(call, handle));

        /// <summary>Copies the whole root into a directory that is absent or empty; pause: each container is frozen meanwhile.</summary>
        public Document CopyRoot(string directory, bool pause = false) => CopyingRoot(directory, pause).Now();

        /// <summary>CopyRoot, for which no thread waits.</summary>
        public Task<Document> CopyRootAsync(string directory, bool pause = false, CancellationToken cancellation = default(CancellationToken)) =>
            CopyingRoot(directory, pause).Begin(cancellation);

        private Work<Document> CopyingRoot(string directory, bool pause) =>
            Describing(call => Raw.RootCopy(call, handle, directory, Document.Write(new { pause })));

        /// <summary>Imports images, volumes and stopped containers of a dockerd; query: any of "directory", "socket", "names".</summary>
        public Document ImportDocker(object query) => ImportingDocker(query).Now();

        /// <summary>ImportDocker, for which no thread waits.</summary>
        public Task<Document> ImportDockerAsync(object query, CancellationToken cancellation = default(CancellationToken)) =>
            ImportingDocker(query).Begin(cancellation);

        private Work<Document> ImportingDocker(object query) => Describing(call => Raw.RootImportDocker(call, handle, Document.Write(query)));

        /// <summary>Answers a request of the HTTP API in process; a status that reports a failure is an answer, too. body: null: none.</summary>
        public Response Request(string method, string target, IDictionary<string, string> headers = null, byte[] body = null) =>
            InCall(call =>
            {
                Raw.HttpRequest(call, handle, method, target, Document.Write(headers), body);
                var none = new Dictionary<string, IReadOnlyList<string>>();
                return new Response(call.OutNumber, none, new BodyStream(new StreamHandle(call.OutHandle), Bounds));
            });

        /// <summary>Opens a private connection that speaks the HTTP API: no listening socket, no path, no port.</summary>
        public Connection Connect() =>
            InCall(call =>
            {
                Raw.HttpConnect(call, handle);
                return new Connection(new Descriptor(call.OutNumber), Bounds);
            });

        /// <summary>
        /// A handler for HttpClient: each request goes over a private connection of its own. The host of a request's address is not looked at.
        /// </summary>
        /// <example><c>new HttpClient(engine.HttpHandler()).GetStringAsync("http://coracle/_ping")</c></example>
        public HttpMessageHandler HttpHandler() => new EngineHttpHandler(this);

        /// <summary>
        /// Serves the HTTP API to others until the server is disposed or the program ends, also if the program keeps no reference to it.
        /// options: a document with any of "Addresses", "InsecureTcp", "HostNames"; sockets listen already, and the server takes duplicates:
        /// Socket.SafeHandle of .NET 5 and later, or a SafeFileHandle of Socket.Handle that does not own it.
        /// </summary>
        public Server Serve(object options, params SafeHandle[] sockets)
        {
            if (sockets == null || Array.IndexOf(sockets, null) >= 0)
            {
                throw new ArgumentNullException(nameof(sockets));
            }
            return new Server(
                HandleOf(call => Raw.HttpServe(call, handle, Document.Write(options), Array.ConvertAll(sockets, call.Kept))), Bounds);
        }

        /// <summary>Ends the handle. Containers run on; sessions, streams and events that came from it stay valid.</summary>
        public void Dispose() => handle.Dispose();
    }

    /// <summary>A server of the HTTP API, on a thread of the library.</summary>
    public sealed class Server : Scoped<Server>, IDisposable
    {
        /// <summary>Those that serve, so that the garbage collector finds none.</summary>
        private static readonly HashSet<ServerHandle> Serving = new HashSet<ServerHandle>();

        private readonly ServerHandle handle;

        internal Server(IntPtr pointer, Bounds bounds) : base(bounds)
        {
            handle = new ServerHandle(pointer);
            lock (Serving)
            {
                Serving.Add(handle);
            }
        }

        private Server(ServerHandle handle, Bounds bounds) : base(bounds)
        {
            this.handle = handle;
        }

        internal override Server With(Bounds other) => new Server(handle, other);

        /// <summary>Lists the addresses of the server, with the ports that were chosen.</summary>
        public IReadOnlyList<string> Addresses() => TextsOf(call => Raw.HttpServerAddresses(call, handle));

        /// <summary>Ends serving; answers under way have grace to come to their end.</summary>
        public void Shutdown(TimeSpan grace) => ShuttingDown(grace).Now();

        /// <summary>Shutdown, for which no thread waits.</summary>
        public Task ShutdownAsync(TimeSpan grace, CancellationToken cancellation = default(CancellationToken)) =>
            ShuttingDown(grace).Begin(cancellation);

        private Work<long> ShuttingDown(TimeSpan grace) => Doing(call => Raw.HttpServerShutdown(call, handle, Bounds.Millis(grace)));

        /// <summary>Ends the server, without grace.</summary>
        public void Dispose()
        {
            handle.Dispose();
            lock (Serving)
            {
                Serving.Remove(handle);
            }
        }
    }
}
