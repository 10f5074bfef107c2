package dev.coracle;

import java.util.Iterator;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** Records that come out of the engine: lines of a log, samples. To be closed; a loop takes the next ones. */
public final class Records<T> extends Scoped<Records<T>> implements Iterable<T>, AutoCloseable {
    private final Handle handle;
    private final Function<Call, T> reader;

    Records(Handle handle, Bounds bounds, Function<Call, T> reader) {
        super(bounds);
        this.handle = handle;
        this.reader = reader;
    }

    static Handle handle(long pointer) {
        Calls calls = Layer.layer().calls();
        return new Handle("stream", pointer, calls::coracle_stream_free);
    }

    @Override
    Records<T> with(Bounds other) {
        return new Records<>(handle, other, reader);
    }

    /** The next record; null: there is none any more. */
    public T next() {
        return handle.alone(() -> call(call -> Raw.streamNext(call, handle) == Raw.DONE ? null : reader.apply(call)));
    }

    @Override
    public Iterator<T> iterator() {
        return new Ahead<>(this::next);
    }

    /** The records as a stream, which closes these when it is closed. */
    public Stream<T> stream() {
        Spliterator<T> all = Spliterators.spliteratorUnknownSize(iterator(), Spliterator.ORDERED | Spliterator.NONNULL);
        return StreamSupport.stream(all, false).onClose(this::close);
    }

    /** How many lines this reader missed: the log's bounds deleted them before they were read. */
    public long lost() {
        return call(call -> Raw.streamLost(call, handle));
    }

    /** A descriptor's number that is readable while a record may be waiting, valid until close. */
    public int fd() {
        return call(call -> (int) Raw.streamFd(call, handle));
    }

    @Override
    public void close() {
        handle.close(true);
    }
}
