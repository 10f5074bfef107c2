package dev.coracle;

import java.time.Duration;

/** The operation of a call. */
final class Op {
    /** How often, in milliseconds, a call that blocks looks whether its thread was interrupted. */
    private static final int HEARTBEAT = 100;

    private final Calls calls = Layer.layer().calls();
    private final Bounds bounds;
    private final Runnable cancel = this::cancel;
    private final long user;
    private long pointer;

    /** The throwable of the caller's own listener, of the caller's own source, or the interruption. */
    volatile Throwable thrown;

    /** An operation that a thread waits in (heartbeat), or one whose call is begun. */
    Op(long pointer, Bounds bounds, boolean waits) {
        this.pointer = pointer;
        this.bounds = bounds;
        user = waits ? Callbacks.keep(this) : 0;
        if (waits) {
            calls.coracle_op_set_progress(pointer, Layer.layer().functions().progress(), user, 0, HEARTBEAT);
        }
        Duration left = bounds.left();
        if (left != null) {
            calls.coracle_op_set_timeout(pointer, Bounds.millis(left));
        }
        bounds.watch(cancel);
    }

    /** Of the C interface; 0 when the operation has ended. */
    synchronized long pointer() {
        return pointer;
    }

    synchronized void cancel() {
        if (pointer != 0) {
            calls.coracle_op_cancel(pointer);
        }
    }

    /** The answer of the progress function. */
    int told(String record) {
        if (thrown == null && record != null && bounds.listener() != null) {
            try {
                bounds.listener().accept(Progress.of(Document.parse(record)));
            } catch (Throwable own) {
                thrown = own;
            }
        }
        if (thrown == null && Thread.currentThread().isInterrupted()) {
            thrown = new InterruptedException("the thread was interrupted");
        }
        return thrown == null ? 0 : 1;
    }

    void end() {
        bounds.forget(cancel);
        long ended;
        synchronized (this) {
            ended = pointer;
            pointer = 0;
        }
        if (ended != 0) {
            calls.coracle_op_free(ended);
        }
        if (user != 0) {
            Callbacks.forget(user);
        }
    }
}
