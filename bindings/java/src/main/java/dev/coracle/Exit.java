package dev.coracle;

import java.util.concurrent.CompletableFuture;
import java.util.function.ToLongFunction;

/** A wait for the end of a process, begun with CORACLE_OP_NONBLOCK. Cancelling it ends the wait. */
final class Exit extends CompletableFuture<Integer> {
    private final Op op;

    private Exit(Op op) {
        this.op = op;
    }

    /** A call that refuses its arguments gives a future that has failed. */
    static CompletableFuture<Integer> begin(Bounds bounds, ToLongFunction<Call> work) {
        Op op;
        try (Call call = new Call(bounds, true)) {
            work.applyAsLong(call);
            op = call.takeOp();
        } catch (CoracleException refused) {
            return CompletableFuture.failedFuture(refused);
        }
        Exit made = new Exit(op);
        // However the future ends, its operation does, after the poller has let go of the descriptor.
        int fd = Layer.layer().calls().coracle_op_fd(op.pointer());
        made.whenComplete((code, thrown) -> {
            Poller.poller().forget(fd);
            op.end();
        });
        made.look(fd);
        return made;
    }

    private void look(int fd) {
        CompletableFuture<Void> ready = Poller.poller().ready(fd, Poller.READ);
        ready.thenRunAsync(() -> take(fd), Threads.POOL);
        if (isDone()) {
            // The future ended meanwhile, and its end found no watch.
            ready.complete(null);
        }
    }

    /** Takes the answer when there is one. */
    private void take(int fd) {
        if (isDone()) {
            return;
        }
        try (Call call = new Call(Bounds.NONE)) {
            long pointer = op.pointer();
            if (pointer == 0) {
                return;
            }
            if (Raw.opResult(call, pointer) == Raw.AGAIN) {
                look(fd);
            } else {
                complete(call.resultCode());
            }
        } catch (Throwable failed) {
            completeExceptionally(failed);
        }
    }

    /** A future of its dependents is a plain one. */
    @Override
    public <U> CompletableFuture<U> newIncompleteFuture() {
        return new CompletableFuture<>();
    }
}
