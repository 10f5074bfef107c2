package dev.coracle;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** A thread that waits for a descriptor: it can be interrupted, cancelled and bounded. */
final class Waiting implements AutoCloseable {
    private final Bounds bounds;
    private final Long end;
    private final Runnable cancel = this::cancel;
    private CompletableFuture<Void> current;
    private boolean cancelled;

    Waiting(Bounds bounds) {
        this.bounds = bounds;
        end = bounds.together().end();
        bounds.watch(cancel);
    }

    private void cancel() {
        CompletableFuture<Void> waited;
        synchronized (this) {
            cancelled = true;
            waited = current;
        }
        if (waited != null) {
            waited.complete(null);
        }
    }

    /** Throws if the wait was ended. */
    void check() {
        synchronized (this) {
            if (cancelled) {
                throw CoracleException.of(Code.CANCELLED, "the call was cancelled");
            }
        }
        if (end != null && end - System.nanoTime() <= 0) {
            throw CoracleException.of(Code.TIMEOUT, "the call's deadline passed");
        }
    }

    /** Waits until the descriptor is ready, or is forgotten. */
    void until(int fd, short events) {
        check();
        CompletableFuture<Void> ready = Poller.poller().ready(fd, events);
        boolean late;
        synchronized (this) {
            current = ready;
            late = cancelled;
        }
        if (late) {
            ready.complete(null);
        }
        try {
            if (end == null) {
                ready.get();
            } else {
                ready.get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw CoracleException.of(Code.CANCELLED, "the thread was interrupted", interrupted);
        } catch (java.util.concurrent.TimeoutException passed) {
            throw CoracleException.of(Code.TIMEOUT, "the call's deadline passed");
        } catch (ExecutionException never) {
            throw new IllegalStateException(never);
        } finally {
            ready.complete(null);
        }
        check();
    }

    @Override
    public void close() {
        bounds.forget(cancel);
    }
}
