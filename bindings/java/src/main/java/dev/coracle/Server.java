package dev.coracle;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A server of the HTTP API, on a thread of the library. */
public final class Server extends Scoped<Server> implements AutoCloseable {
    /** Those that serve, so that the garbage collector finds none. */
    private static final Set<Handle> SERVING = ConcurrentHashMap.newKeySet();

    private final Handle handle;

    Server(long pointer, Bounds bounds) {
        super(bounds);
        Calls calls = Layer.layer().calls();
        handle = new Handle("server", pointer, calls::coracle_http_server_free);
        SERVING.add(handle);
    }

    private Server(Handle handle, Bounds bounds) {
        super(bounds);
        this.handle = handle;
    }

    @Override
    Server with(Bounds other) {
        return new Server(handle, other);
    }

    /** Lists the addresses of the server, with the ports that were chosen. */
    public List<String> addresses() {
        return texts(call -> Raw.httpServerAddresses(call, handle));
    }

    /** Ends serving; answers under way have grace to come to their end. */
    public void shutdown(Duration grace) {
        does(call -> Raw.httpServerShutdown(call, handle, grace.toMillis()));
    }

    /** Ends the server, without grace. */
    @Override
    public void close() {
        handle.close(true);
        SERVING.remove(handle);
    }
}
