package dev.coracle;

import java.util.concurrent.CompletableFuture;

/** A further process of a container, by its id. */
public final class Exec extends Scoped<Exec> {
    private final Handle engine;
    private final String id;

    Exec(Handle engine, String id, Bounds bounds) {
        super(bounds);
        this.engine = engine;
        this.id = id;
    }

    @Override
    Exec with(Bounds other) {
        return new Exec(engine, id, other);
    }

    /** The id. */
    public String id() {
        return id;
    }

    /** Starts the process, detached. */
    public void start() {
        does(call -> Raw.execStart(call, engine, id, null));
    }

    /** Starts the process with its streams in hand. */
    public Session startAttached() {
        return startAttached(ProcessIo.PIPES);
    }

    /** The same with a terminal's size or descriptors of the caller's. */
    public Session startAttached(ProcessIo io) {
        return new Session(Session.handle(handle(call -> Raw.execStart(call, engine, id, io))), bounds);
    }

    /** Waits for the process's end: its exit code, 128 + n if signal n ended it. */
    public int waitFor() {
        return await(onExit());
    }

    /** The exit code as a future, for which no thread waits. */
    public CompletableFuture<Integer> onExit() {
        return begin(call -> Raw.execWait(call, engine, id));
    }

    /** Describes the process in full: the document of GET /exec/{id}/json. */
    public Document inspect() {
        return document(call -> Raw.execInspect(call, engine, id));
    }
}
