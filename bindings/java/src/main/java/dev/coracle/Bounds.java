package dev.coracle;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** What ends the calls of an object, and what they tell. */
record Bounds(Duration timeout, List<Cancel> cancels, Consumer<? super Progress> listener) {
    static final Bounds NONE = new Bounds(null, List.of(), null);

    Bounds within(Duration time) {
        return new Bounds(time, cancels, listener);
    }

    Bounds cancelledBy(Cancel cancel) {
        List<Cancel> all = new ArrayList<>(cancels);
        all.add(java.util.Objects.requireNonNull(cancel, "cancel"));
        return new Bounds(timeout, List.copyOf(all), listener);
    }

    Bounds telling(Consumer<? super Progress> to) {
        return new Bounds(timeout, cancels, to);
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
