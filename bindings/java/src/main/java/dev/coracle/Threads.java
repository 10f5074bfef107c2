package dev.coracle;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;

/** The threads of calls that nobody waits for. They end after a minute without work, and do not keep the program. */
final class Threads {
    private static final AtomicLong NUMBER = new AtomicLong();

    static final ExecutorService POOL = Executors.newCachedThreadPool(work -> daemon(work, "coracle-call-" + NUMBER.incrementAndGet()));

    private Threads() {}

    static Thread daemon(Runnable work, String name) {
        Thread made = new Thread(null, work, name);
        made.setDaemon(true);
        return made;
    }
}
