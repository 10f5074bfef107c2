package dev.coracle;

import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Supplier;

/** Iterates over what a reader gives, until it gives null. */
final class Ahead<T> implements Iterator<T> {
    private final Supplier<T> reader;
    private T next;
    private boolean ended;

    Ahead(Supplier<T> reader) {
        this.reader = reader;
    }

    @Override
    public boolean hasNext() {
        if (next == null && !ended) {
            next = reader.get();
            ended = next == null;
        }
        return next != null;
    }

    @Override
    public T next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        T given = next;
        next = null;
        return given;
    }
}
