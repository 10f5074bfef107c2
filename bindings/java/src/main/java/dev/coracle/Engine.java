package dev.coracle;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/** An opened root, for any number of threads. Closing it leaves its containers running. */
public final class Engine extends Scoped<Engine> implements AutoCloseable {
    final Handle handle;

    Engine(Handle handle, Bounds bounds) {
        super(bounds);
        this.handle = handle;
    }

    static Handle handle(long pointer) {
        Calls calls = Layer.layer().calls();
        return new Handle("engine", pointer, calls::coracle_close);
    }

    @Override
    Engine with(Bounds other) {
        return new Engine(handle, other);
    }

    /** The containers. */
    public Containers containers() {
        return new Containers(handle, bounds);
    }

    /** The images. */
    public Images images() {
        return new Images(handle, bounds);
    }

    /** The networks. */
    public Networks networks() {
        return new Networks(handle, bounds);
    }

    /** The volumes. */
    public Volumes volumes() {
        return new Volumes(handle, bounds);
    }

    /** The managed plugins. */
    public Plugins plugins() {
        return new Plugins(handle, bounds);
    }

    /** The container of an id, a name, or the beginning of an id; it asks nothing. */
    public Container container(String id) {
        return containers().get(id);
    }

    /** Another handle of the same engine, which stays open when this one is closed. */
    public Engine again() {
        try (Call call = new Call(bounds)) {
            return new Engine(handle(Raw.ref(call, handle)), bounds);
        }
    }

    /** Describes the engine and the host: the document of GET /info. */
    public Document info() {
        return document(call -> Raw.engineInfo(call, handle));
    }

    /** The versions of the library, the API and the kernel. */
    public Document version() {
        return document(call -> Raw.engineVersion(call, handle));
    }

    /** Counts the bytes that images, containers and volumes take; kinds: "image", "container", "volume"; none: all. */
    public Document diskUsage(String... kinds) {
        return document(call -> Raw.engineDiskUsage(call, handle, Document.write(Map.of("type", kinds))));
    }

    /** Counts the root's objects, and this engine's work since it was opened. */
    public Document metrics() {
        return document(call -> Raw.engineMetrics(call, handle));
    }

    /** Replaces the engine's labels, and reports to all followers of events that settings were read again; null: none. */
    public void reload(List<String> labels, Map<String, String> settings) {
        does(call -> Raw.engineReload(call, handle, Document.write(labels), Document.write(settings)));
    }

    /**
     * Holds a lease: containers with the label "coracle.lease" of that name end when no process has its descriptor open any more.
     */
    public Descriptor lease(String name) {
        return call(call -> {
            Raw.leaseHold(call, handle, name);
            return new Descriptor(call.number());
        });
    }

    /** Follows the events of the root: no event after this call is missed silently. */
    public Events events() {
        return events(null);
    }

    /** Follows events; query: a document with any of "since", "until", "after", "filters". */
    public Events events(Object query) {
        long pointer = handle(call -> Raw.eventsOpen(call, handle, Document.write(query)));
        return new Events(Events.handle(pointer), bounds);
    }

    /** Reads every layer and image of the store; the member "Damage" of the answer lists damaged ones. */
    public Document verify(boolean repair) {
        return document(call -> Raw.rootVerify(call, handle, Document.write(Map.of("repair", repair))));
    }

    /** Lists files that removals could not remove. */
    public List<Document> leftovers() {
        return documents(call -> Raw.rootLeftovers(call, handle));
    }

    /** Tries again to remove files that removals left; the answer has those that stay. */
    public List<Document> sweep() {
        return documents(call -> Raw.rootSweep(call, handle));
    }

    /** Copies the whole root into a directory that is absent or empty; pause: each container is frozen meanwhile. */
    public Document copyRoot(Path directory, boolean pause) {
        return document(call -> Raw.rootCopy(call, handle, directory.toString(), Document.write(Map.of("pause", pause))));
    }

    /** Imports images, volumes and stopped containers of a dockerd; query: any of "directory", "socket", "names". */
    public Document importDocker(Object query) {
        return document(call -> Raw.rootImportDocker(call, handle, Document.write(query)));
    }

    /** Answers a request of the HTTP API in process; a status that reports a failure is an answer, too. */
    public Response request(String method, String target) {
        return request(method, target, Map.of(), null);
    }

    /** The same with headers and a body; null: none. */
    public Response request(String method, String target, Map<String, String> headers, byte[] body) {
        return call(call -> {
            Raw.httpRequest(call, handle, method, target, Document.write(headers), body);
            return new Response(call.number(), Map.of(), new Body(call.handle(), bounds));
        });
    }

    /** Opens a private connection that speaks the HTTP API: no listening socket, no path, no port. */
    public Connection connect() {
        return call(call -> {
            Raw.httpConnect(call, handle);
            return new Connection(new Descriptor(call.number()), bounds);
        });
    }

    /**
     * Serves the HTTP API to others until the server is closed or the program ends, also if the program keeps no reference to it.
     *
     * @param options a document with any of "Addresses", "InsecureTcp", "HostNames"
     * @param sockets sockets that listen already; the server takes duplicates
     */
    public Server serve(Object options, Descriptor... sockets) {
        int[] numbers = new int[sockets.length];
        for (int at = 0; at < numbers.length; at++) {
            numbers[at] = sockets[at].number();
        }
        try {
            return new Server(handle(call -> Raw.httpServe(call, handle, Document.write(options), numbers)), bounds);
        } finally {
            java.lang.ref.Reference.reachabilityFence(sockets);
        }
    }

    /** Whether this handle was closed. */
    public boolean isClosed() {
        return handle.isClosed();
    }

    /** Ends the handle. Containers run on; sessions, streams and events that came from it stay valid. */
    @Override
    public void close() {
        handle.close(false);
    }
}
