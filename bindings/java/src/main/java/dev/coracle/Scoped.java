package dev.coracle;

import com.google.gson.reflect.TypeToken;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.ToLongFunction;

/**
 * An object whose calls may be bounded, cancelled and watched: each method here gives a copy for such calls.
 *
 * <pre>{@code
 * int code = box.within(Duration.ofSeconds(3)).waitFor();
 * CompletableFuture<String> id = engine.images().onProgress(System.out::println).async(images -> images.pull("alpine"));
 * }</pre>
 *
 * <p>A thread that is interrupted in a call ends the call with {@link CoracleException.Cancelled}, and stays interrupted.
 */
public abstract class Scoped<S extends Scoped<S>> {
    final Bounds bounds;

    Scoped(Bounds bounds) {
        this.bounds = bounds;
    }

    /** The same object with other bounds. */
    abstract S with(Bounds other);

    /** A copy whose calls each end after that time, with {@link CoracleException.Timeout}. */
    public final S within(Duration time) {
        return with(bounds.within(time));
    }

    /** A copy whose calls end when that is cancelled, with {@link CoracleException.Cancelled}. */
    public final S cancelledBy(Cancel cancel) {
        return with(bounds.cancelledBy(cancel));
    }

    /** A copy whose calls tell their progress, on the thread of the call. What the listener throws ends the call. */
    public final S onProgress(Consumer<? super Progress> listener) {
        return with(bounds.telling(listener));
    }

    /**
     * Makes calls on another thread. Whatever completes the future first, such as cancel or orTimeout, also ends the calls.
     *
     * <p>To wait for the end of a process, onExit() takes no thread.
     */
    public final <T> CompletableFuture<T> async(Function<? super S, ? extends T> calls) {
        Cancel cancel = new Cancel();
        S object = cancelledBy(cancel);
        CompletableFuture<T> made = new CompletableFuture<>();
        made.whenComplete((value, thrown) -> cancel.cancel());
        Threads.POOL.execute(() -> {
            if (made.isDone()) {
                return;
            }
            try {
                made.complete(calls.apply(object));
            } catch (CompletionException within) {
                made.completeExceptionally(within.getCause() == null ? within : within.getCause());
            } catch (Throwable thrown) {
                made.completeExceptionally(thrown);
            }
        });
        return made;
    }

    // ---- calls in the bounds of this object

    /** A call, and what is made of its frame. */
    final <T> T call(Function<Call, T> work) {
        try (Call call = new Call(bounds)) {
            return work.apply(call);
        }
    }

    /** A call that gives a status. */
    final long does(ToLongFunction<Call> work) {
        return call(work::applyAsLong);
    }

    /** Whether the call changed anything. */
    final boolean changes(ToLongFunction<Call> work) {
        return does(work) != Raw.UNCHANGED;
    }

    /** A call that gives a JSON text. */
    final String json(ToLongFunction<Call> work) {
        return call(call -> {
            work.applyAsLong(call);
            return call.json();
        });
    }

    final Document document(ToLongFunction<Call> work) {
        return Document.parse(json(work));
    }

    final List<Document> documents(ToLongFunction<Call> work) {
        return Document.list(json(work));
    }

    final List<String> texts(ToLongFunction<Call> work) {
        return Document.read(json(work), new TypeToken<List<String>>() {});
    }

    /** A call that gives an id. */
    final String id(ToLongFunction<Call> work) {
        return call(call -> {
            work.applyAsLong(call);
            return call.id();
        });
    }

    /** A call that gives a handle; 0: none. */
    final long handle(ToLongFunction<Call> work) {
        return call(call -> {
            work.applyAsLong(call);
            return call.handle();
        });
    }

    /** A wait that is begun, and takes no thread: its exit code. */
    final CompletableFuture<Integer> begin(ToLongFunction<Call> work) {
        return Exit.begin(bounds, work);
    }

    /** Waits for it. */
    static int await(CompletableFuture<Integer> exit) {
        try {
            return exit.get();
        } catch (InterruptedException interrupted) {
            exit.cancel(true);
            Thread.currentThread().interrupt();
            throw CoracleException.of(Code.CANCELLED, "the thread was interrupted", interrupted);
        } catch (java.util.concurrent.ExecutionException failed) {
            if (failed.getCause() instanceof CoracleException error) {
                // With the stack of the thread that waits.
                error.addSuppressed(new Throwable("waited for here"));
                throw error;
            }
            throw new IllegalStateException(failed.getCause());
        }
    }

    /** Filters as a document; none is NULL. */
    static String filters(Object filters) {
        return Document.write(filters);
    }
}
