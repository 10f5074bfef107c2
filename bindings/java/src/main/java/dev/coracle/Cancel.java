package dev.coracle;

import java.util.LinkedHashSet;
import java.util.Set;

/** Cancels, from any thread, every call that was given it: {@code box.cancelledBy(cancel)}. */
public final class Cancel {
    private final Set<Runnable> running = new LinkedHashSet<>();
    private boolean cancelled;

    /** Ends the calls that run, and those that come later at once. */
    public synchronized void cancel() {
        cancelled = true;
        for (Runnable one : running.toArray(new Runnable[0])) {
            one.run();
        }
    }

    /** Whether {@link #cancel} was called. */
    public synchronized boolean isCancelled() {
        return cancelled;
    }

    /** Has work done at the cancellation, at once if that was before. The work must not wait. */
    synchronized void add(Runnable work) {
        running.add(work);
        if (cancelled) {
            work.run();
        }
    }

    /** The work neither runs nor will when this has returned. */
    synchronized void remove(Runnable work) {
        running.remove(work);
    }
}
