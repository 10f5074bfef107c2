package dev.coracle;

import java.lang.ref.Cleaner;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongConsumer;
import java.util.function.Supplier;

/** A handle of the library. It ends once: by close, or when it is forgotten. */
final class Handle {
    static final Cleaner CLEANER = Cleaner.create();

    private final String name;
    private final long pointer;
    private final Cleaner.Cleanable end;
    private final Set<Op> running = new HashSet<>();
    private final ReentrantLock reading = new ReentrantLock();
    private boolean closed;

    /** A handle that ends when it is forgotten. */
    Handle(String name, long pointer, LongConsumer free) {
        this.name = name;
        this.pointer = pointer;
        end = CLEANER.register(this, () -> free.accept(pointer));
    }

    /** The pointer for a call, which keeps this object until its end. */
    synchronized long pointer() {
        if (closed) {
            throw CoracleException.of(Code.MISUSE, "the " + name + " is closed");
        }
        return pointer;
    }

    /**
     * Runs a call whose answer the library keeps only until the next one with this handle, and copies the answer: one thread at a time. A call
     * of another one meanwhile, and of a reader, is misuse.
     */
    <T> T alone(Supplier<T> call) {
        if (reading.isHeldByCurrentThread() || !reading.tryLock()) {
            throw CoracleException.of(Code.MISUSE, "another thread reads the " + name);
        }
        try {
            return call.get();
        } finally {
            reading.unlock();
        }
    }

    /** The operation ends when the handle is closed. */
    synchronized void begin(Op op) {
        if (!closed) {
            running.add(op);
        }
    }

    synchronized void end(Op op) {
        running.remove(op);
    }

    synchronized boolean isClosed() {
        return closed;
    }

    /** Closes the handle; calls of other threads with it come to their end. */
    void close(boolean endCalls) {
        Op[] left;
        synchronized (this) {
            if (closed) {
                return;
            }
            closed = true;
            left = endCalls ? running.toArray(new Op[0]) : new Op[0];
        }
        for (Op op : left) {
            op.cancel();
        }
        end.clean();
    }
}
