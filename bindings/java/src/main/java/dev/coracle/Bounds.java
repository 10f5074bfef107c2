package dev.coracle;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * What ends the calls of an object, and what they tell.
 *
 * @param timeout how long each call may last, or null
 * @param end until when all calls together may last, by System.nanoTime, or null
 * @param cancels whatever cancels them
 * @param listener gets their progress, or null
 */
record Bounds(Duration timeout, Long end, List<Cancel> cancels, Consumer<? super Progress> listener) {
    static final Bounds NONE = new Bounds(null, null, List.of(), null);

    Bounds within(Duration time) {
        return new Bounds(time, null, cancels, listener);
    }

    /** Bounds for several calls that last, together, as long as one may. */
    Bounds together() {
        if (end != null) {
            return this;
        }
        long ms = millis(timeout);
        // A far time is as good as no bound, and nanoTime would overflow.
        boolean far = ms < 0 || ms > Long.MAX_VALUE / 4_000_000;
        return far ? new Bounds(null, null, cancels, listener) : new Bounds(null, System.nanoTime() + ms * 1_000_000, cancels, listener);
    }

    /** How long a call that begins now may last; null: without a bound. */
    Duration left() {
        return end == null ? timeout : Duration.ofNanos(Math.max(0, end - System.nanoTime()));
    }

    Bounds cancelledBy(Cancel cancel) {
        List<Cancel> all = new ArrayList<>(cancels);
        all.add(java.util.Objects.requireNonNull(cancel, "cancel"));
        return new Bounds(timeout, end, List.copyOf(all), listener);
    }

    Bounds telling(Consumer<? super Progress> to) {
        return new Bounds(timeout, end, cancels, to);
    }

    /** Milliseconds, rounded up; -1: no bound. */
    static long millis(Duration time) {
        if (time == null) {
            return -1;
        }
        if (time.isNegative()) {
            return 0;
        }
        try {
            return time.plusNanos(999_999).toMillis();
        } catch (ArithmeticException endless) {
            return Long.MAX_VALUE;
        }
    }

    void watch(Runnable work) {
        cancels.forEach(cancel -> cancel.add(work));
    }

    void forget(Runnable work) {
        cancels.forEach(cancel -> cancel.remove(work));
    }
}
