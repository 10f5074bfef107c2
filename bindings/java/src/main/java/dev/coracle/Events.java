package dev.coracle;

import java.util.Iterator;
import java.util.Optional;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** The events of a root, of any program. To be closed; a loop takes the next ones. */
public final class Events extends Scoped<Events> implements Iterable<Event>, AutoCloseable {
    private final Handle handle;

    Events(Handle handle, Bounds bounds) {
        super(bounds);
        this.handle = handle;
    }

    static Handle handle(long pointer) {
        Calls calls = Layer.layer().calls();
        return new Handle("events", pointer, calls::coracle_events_free);
    }

    @Override
    Events with(Bounds other) {
        return new Events(handle, other);
    }

    /**
     * Waits for the next event; null: "until" is reached. Events that are no longer kept are an error with the code UNAVAILABLE, once;
     * then the next ones come.
     */
    public Event next() {
        try (Waiting waiting = new Waiting(bounds)) {
            for (;;) {
                waiting.check();
                Look look = look();
                if (look.status != Raw.AGAIN) {
                    return look.event;
                }
                waiting.until(fd(), Poller.READ);
            }
        }
    }

    /** The next event that is there already; empty: there is none yet, or "until" is reached. */
    public Optional<Event> poll() {
        return Optional.ofNullable(look().event);
    }

    /** The status of a look, and the event that it found. */
    private record Look(long status, Event event) {}

    private Look look() {
        return handle.alone(() -> call(call -> {
            long status = Raw.eventsNext(call, handle, 0);
            return new Look(status, status == Raw.OK ? Event.of(Document.parse(call.borrowedJson())) : null);
        }));
    }

    @Override
    public Iterator<Event> iterator() {
        return new Ahead<>(this::next);
    }

    /** The events as a stream, which closes these when it is closed. */
    public Stream<Event> stream() {
        Spliterator<Event> all = Spliterators.spliteratorUnknownSize(iterator(), Spliterator.ORDERED | Spliterator.NONNULL);
        return StreamSupport.stream(all, false).onClose(this::close);
    }

    /** A descriptor's number that is readable while an event may be waiting, valid until close. */
    public int fd() {
        return call(call -> (int) Raw.eventsFd(call, handle));
    }

    @Override
    public void close() {
        if (!handle.isClosed()) {
            int fd = -1;
            try {
                fd = fd();
            } catch (CoracleException closedMeanwhile) {
                // The other close ends the waits.
            }
            handle.close(true);
            if (fd >= 0) {
                Poller.poller().forget(fd);
            }
        }
    }
}
