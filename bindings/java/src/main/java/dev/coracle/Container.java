package dev.coracle;

import java.io.InputStream;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** A container by its id or name; it outlives this object and the program. */
public final class Container extends Scoped<Container> {
    private final Handle engine;
    private final String id;
    private final List<String> warnings;

    Container(Handle engine, String id, List<String> warnings, Bounds bounds) {
        super(bounds);
        this.engine = engine;
        this.id = id;
        this.warnings = warnings;
    }

    @Override
    Container with(Bounds other) {
        return new Container(engine, id, warnings, other);
    }

    /** The id, or the name by which the container was asked for. */
    public String id() {
        return id;
    }

    /** The remarks of the engine about its creation. */
    public List<String> warnings() {
        return warnings;
    }

    /** Describes the container in full: the document of GET /containers/{id}/json. */
    public Document inspect() {
        return document(call -> Raw.containerInspect(call, engine, id, 0));
    }

    /** The same with SizeRw and SizeRootFs. */
    public Document inspectSize() {
        return document(call -> Raw.containerInspect(call, engine, id, 1));
    }

    /** Describes the container's launch in words, with the kernel's answer to the step at which the last start failed. */
    public Document explain() {
        return document(call -> Raw.containerExplain(call, engine, id));
    }

    /** Starts the container, detached; false: it ran already. */
    public boolean start() {
        return changes(call -> Raw.containerStart(call, engine, id, null));
    }

    /** Starts the container with its streams in hand from the first byte on. Of a container that runs already it is attach. */
    public Session startAttached() {
        return startAttached(ProcessIo.PIPES);
    }

    /** The same with a terminal's size or descriptors of the caller's. */
    public Session startAttached(ProcessIo io) {
        long pointer = handle(call -> Raw.containerStart(call, engine, id, io));
        return pointer == 0 ? attach(null, io) : new Session(Session.handle(pointer), bounds);
    }

    /** Attaches to all standard streams of the container. */
    public Session attach() {
        return attach(null);
    }

    /** Attaches; query: a document with any of "stdin", "stdout", "stderr", "wait"; none of the streams: all. */
    public Session attach(Object query) {
        return attach(query, ProcessIo.PIPES);
    }

    /** The same with a terminal's size or descriptors of the caller's. */
    public Session attach(Object query, ProcessIo io) {
        long pointer = handle(call -> Raw.containerAttach(call, engine, id, io, Document.write(query)));
        return new Session(Session.handle(pointer), bounds);
    }

    /** Stops the container: its stop signal and, if it still runs after grace, SIGKILL. False: it did not run. */
    public boolean stop(Duration grace) {
        return changes(call -> Raw.containerStop(call, engine, id, grace.toMillis()));
    }

    /** Stops the container with its own stop signal and time. */
    public boolean stop() {
        return stopWith(Map.of());
    }

    /** Stops the container; how: a document with any of "signal" and "grace_ms" (below 0: SIGKILL is never sent). */
    public boolean stopWith(Object how) {
        return changes(call -> Raw.containerStopWith(call, engine, id, Document.write(how)));
    }

    /** Stops the container if it runs, and starts it. */
    public void restart(Duration grace) {
        does(call -> Raw.containerRestart(call, engine, id, grace.toMillis()));
    }

    /** The same; how: as of {@link #stopWith}. */
    public void restartWith(Object how) {
        does(call -> Raw.containerRestartWith(call, engine, id, Document.write(how)));
    }

    /** Sends SIGKILL, and waits for its effect. */
    public void kill() {
        kill(null);
    }

    /** Sends a signal, a name or a number. */
    public void kill(String signal) {
        does(call -> Raw.containerKill(call, engine, id, signal));
    }

    /** Freezes the container's processes. */
    public void pause() {
        does(call -> Raw.containerPause(call, engine, id));
    }

    /** Thaws the container's processes. */
    public void unpause() {
        does(call -> Raw.containerUnpause(call, engine, id));
    }

    /** Waits until the container does not run: its exit code, 128 + n if signal n ended it. */
    public int waitFor() {
        return waitFor(Condition.NOT_RUNNING);
    }

    /** Waits for a condition: the exit code. */
    public int waitFor(Condition condition) {
        return await(onExit(condition));
    }

    /** The exit code as a future, for which no thread waits. Cancelling it ends the wait, and leaves the container alone. */
    public CompletableFuture<Integer> onExit() {
        return onExit(Condition.NOT_RUNNING);
    }

    /** The same for a condition. It misses no end after this call: ask for NEXT_EXIT, start the container, and wait. */
    public CompletableFuture<Integer> onExit(Condition condition) {
        return onExit(condition.text);
    }

    CompletableFuture<Integer> onExit(String condition) {
        return begin(call -> Raw.containerWait(call, engine, id, condition));
    }

    /** A descriptor of the container's first process, which is readable when the process has ended. */
    public Descriptor pidfd() {
        return call(call -> {
            Raw.containerPidfd(call, engine, id);
            return new Descriptor(call.number());
        });
    }

    /** Removes the container. */
    public void remove(Remove... how) {
        does(call -> Raw.containerRemove(call, engine, id, Remove.flags(how)));
    }

    /** Gives the container another name. */
    public void rename(String name) {
        does(call -> Raw.containerRename(call, engine, id, name));
    }

    /** Lists the container's processes, as ps -ef does: "Titles" and "Processes". */
    public Document top() {
        return top(null);
    }

    /** The same with arguments of ps. */
    public Document top(String arguments) {
        return document(call -> Raw.containerTop(call, engine, id, arguments));
    }

    /** Changes limits and restart policy by a body of POST /containers/{id}/update; the answer has warnings. */
    public List<String> update(Object body) {
        return document(call -> Raw.containerUpdate(call, engine, id, Document.write(body))).texts("Warnings");
    }

    /** A sample of the resources that the container uses now: the document of GET /containers/{id}/stats. */
    public Document stats() {
        try (Records<Document> all = samples(Map.of("stream", false, "one-shot", true))) {
            return all.next();
        }
    }

    /** A sample at once and then one a second, until the container is removed. */
    public Records<Document> samples() {
        return samples(Map.of("stream", true));
    }

    private Records<Document> samples(Object query) {
        long pointer = handle(call -> Raw.containerStats(call, engine, id, Document.write(query)));
        return new Records<>(Records.handle(pointer), bounds, LogLine::sample);
    }

    /** The lines of the container's log so far. */
    public Records<LogLine> logs() {
        return logs(null);
    }

    /** Lines of the log; query: a document with any of "stdout", "stderr", "follow", "tail", "since", "until", "details". */
    public Records<LogLine> logs(Object query) {
        long pointer = handle(call -> Raw.containerLogs(call, engine, id, Document.write(query)));
        return new Records<>(Records.handle(pointer), bounds, LogLine::of);
    }

    /** Describes the file at a path of the container: "name", "size", "mode", "mtime", "linkTarget". */
    public Document statPath(String path) {
        return document(call -> Raw.containerStatPath(call, engine, id, path));
    }

    /** Copies files out of the container: a tar, to be read to its end and closed, with the description of the file at the path. */
    public Archive getArchive(String path) {
        return call(call -> {
            Raw.containerGetArchive(call, engine, id, path);
            return new Archive(new Body(call.handle(), bounds), Document.parse(call.json()));
        });
    }

    /**
     * Files out of a container.
     *
     * @param body a tar
     * @param stat the description of the file at the path
     */
    public record Archive(Body body, Document stat) implements AutoCloseable {
        @Override
        public void close() {
            body.close();
        }
    }

    /** Extracts a tar, plain or compressed, into a directory of the container. */
    public void putArchive(String path, InputStream archive) {
        putArchive(path, archive, null);
    }

    /** The same; query: a document with any of "noOverwriteDirNonDir", "copyUIDGID". */
    public void putArchive(String path, InputStream archive, Object query) {
        try (Source source = Source.of(archive)) {
            put(path, source, query);
        }
    }

    /** The same of a file, which the library reads itself. */
    public void putArchive(String path, Path archive, Object query) throws NoSuchFileException {
        try (Source source = Source.of(archive)) {
            put(path, source, query);
        }
    }

    private void put(String path, Source source, Object query) {
        does(call -> Raw.containerPutArchive(call, engine, id, path, Document.write(query), source));
    }

    /** The container's whole file system as a tar, without binds and volumes. */
    public Body export() {
        return new Body(handle(call -> Raw.containerExport(call, engine, id)), bounds);
    }

    /** Lists the files that the container changed, compared with its image: "Path", "Kind" (0 modified, 1 added, 2 deleted). */
    public List<Document> changes() {
        return documents(call -> Raw.containerChanges(call, engine, id));
    }

    /** Makes an image of the container, without its volumes: the image's id. */
    public String commit(Object query) {
        return commit(query, null);
    }

    /**
     * The same with a configuration that is laid over the container's; query: a document with any of "repo", "tag", "comment", "author",
     * "pause", "changes".
     */
    public String commit(Object query, Object config) {
        return id(call -> Raw.containerCommit(call, engine, id, Document.write(query), Document.write(config)));
    }

    /** Prepares a further process of a body of POST /containers/{id}/exec: "Cmd", "AttachStdout", "Tty", ... */
    public Exec exec(Object body) {
        return new Exec(engine, id(call -> Raw.execCreate(call, engine, id, Document.write(body))), bounds);
    }

    /** Runs a command in the container to its end. */
    public Output run(String... command) {
        Exec made = exec(Document.of("Cmd", List.of(command), "AttachStdout", true, "AttachStderr", true));
        try (Session session = made.startAttached()) {
            return session.communicate();
        }
    }
}
