package dev.coracle;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** The functions that the library calls. Their user is a number of an object that is kept here: C holds no reference of Java. */
final class Callbacks {
    private static final ConcurrentHashMap<Long, Object> KEPT = new ConcurrentHashMap<>();
    private static final AtomicLong NEXT = new AtomicLong(1);

    private Callbacks() {}

    static long keep(Object object) {
        long user = NEXT.getAndIncrement();
        KEPT.put(user, object);
        return user;
    }

    static void forget(long user) {
        KEPT.remove(user);
    }

    /** How many objects are kept, for tests. */
    static int kept() {
        return KEPT.size();
    }

    // Nothing is thrown into C.

    static int progress(Layer layer, long user, long record) {
        try {
            return KEPT.get(user) instanceof Op op ? op.told(layer.text(record)) : 0;
        } catch (Throwable lost) {
            return 1;
        }
    }

    static long read(Layer layer, long user, long room, long count) {
        try {
            return KEPT.get(user) instanceof Source source ? source.read(layer, room, count) : -1;
        } catch (Throwable lost) {
            return -1;
        }
    }

    static void log(Layer layer, long user, int level, long target, long message) {
        try {
            if (KEPT.get(user) instanceof LogSink sink) {
                sink.accept(LogLevel.of(level), layer.text(target), layer.text(message));
            }
        } catch (Throwable lost) {
            // A sink has nobody to tell.
        }
    }

    static void drop(long user) {
        KEPT.remove(user);
    }
}
