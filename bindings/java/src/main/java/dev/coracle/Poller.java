package dev.coracle;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** One thread waits for all descriptors that this program waits for. */
final class Poller {
    static final short READ = 1;
    static final short WRITE = 4;
    private static final int ENTRY = 8;

    private static Poller poller;

    private final Layer layer = Layer.layer();
    private final int wake;
    private final long word = layer.allocate(8);
    private final List<Watch> watches = new ArrayList<>();

    private record Watch(int fd, short events, CompletableFuture<Void> ready) {}

    private Poller() {
        wake = layer.libc().eventfd();
        if (wake < 0) {
            throw new CoracleException.Facts(Code.IO, 500, -wake, "java", "no eventfd: errno " + -wake, Document.EMPTY, null).exception();
        }
        layer.word(word, 1);
        Threads.daemon(this::run, "coracle-poller").start();
    }

    static synchronized Poller poller() {
        if (poller == null) {
            poller = new Poller();
        }
        return poller;
    }

    /** Comes to its end when the descriptor is ready, or {@link #forget} is called. No work that waits may follow on its thread. */
    CompletableFuture<Void> ready(int fd, short events) {
        Watch made = new Watch(fd, events, new CompletableFuture<>());
        synchronized (watches) {
            watches.add(made);
        }
        // A future that another thread completes is forgotten, too.
        made.ready.whenComplete((none, ended) -> {
            synchronized (watches) {
                watches.remove(made);
            }
        });
        wake();
        return made.ready;
    }

    /** Ends every wait for a descriptor. The caller may close it then: an old look at its number tells nobody anything. */
    void forget(int fd) {
        List<Watch> ended = new ArrayList<>();
        synchronized (watches) {
            for (Watch one : watches) {
                if (one.fd == fd) {
                    ended.add(one);
                }
            }
        }
        for (Watch one : ended) {
            one.ready.complete(null);
        }
        if (!ended.isEmpty()) {
            // A poll(2) that goes on would keep a closed socket open for its peer.
            wake();
        }
    }

    /** Whether a descriptor is ready now. */
    static boolean isReady(int fd, short events) {
        Layer layer = Layer.layer();
        long entry = layer.allocate(ENTRY);
        try {
            fill(layer, entry, fd, events);
            return layer.libc().poll(entry, 1, 0) > 0;
        } finally {
            layer.free(entry);
        }
    }

    private static void fill(Layer layer, long entry, int fd, short events) {
        layer.number(entry, fd);
        layer.half(entry + 4, events);
        layer.half(entry + 6, (short) 0);
    }

    private void wake() {
        layer.libc().write(wake, word, 8);
    }

    private void run() {
        for (;;) {
            Watch[] looked;
            synchronized (watches) {
                looked = watches.toArray(new Watch[0]);
            }
            long entries = layer.allocate((looked.length + 1L) * ENTRY);
            try {
                look(entries, looked);
            } finally {
                layer.free(entries);
            }
        }
    }

    private void look(long entries, Watch[] looked) {
        fill(layer, entries, wake, READ);
        for (int at = 0; at < looked.length; at++) {
            fill(layer, entries + (at + 1L) * ENTRY, looked[at].fd, looked[at].events);
        }
        // A signal ends it early: the next look follows.
        if (layer.libc().poll(entries, looked.length + 1L, -1) <= 0) {
            return;
        }
        if (layer.half(entries + 6) != 0) {
            long drained = layer.allocate(8);
            layer.calls().coracle_read_fd(wake, drained, 8);
            layer.free(drained);
        }
        for (int at = 0; at < looked.length; at++) {
            if (layer.half(entries + (at + 1L) * ENTRY + 6) != 0) {
                looked[at].ready.complete(null);
            }
        }
    }
}
