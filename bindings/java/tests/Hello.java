package dev.coracle;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * Hello ROOT IMAGE.tar: says hello from a container, and prints the time from the start of main to the container's first output, the time
 * of a call that does nothing in the library, and of the operation that a call which may last has.
 */
final class Hello {
    private static final int CALLS = 20_000;

    private Hello() {}

    private static double micros(Runnable call) {
        for (int at = 0; at < CALLS; at++) {
            call.run();
        }
        long begun = System.nanoTime();
        for (int at = 0; at < CALLS; at++) {
            call.run();
        }
        return (System.nanoTime() - begun) / 1e3 / CALLS;
    }

    private static void operation() {
        try (Call call = new Call(Bounds.NONE.within(Duration.ofSeconds(9)))) {
            call.op();
        }
    }

    public static void main(String[] arguments) throws Exception {
        long begun = System.nanoTime();
        try (Engine engine = Coracle.open(arguments[0])) {
            String image = engine.images().list().isEmpty() ? engine.images().load(Path.of(arguments[1])).get(0) : "busybox";
            long loaded = System.nanoTime();
            Container box = engine.containers().create(Document.of("Image", image, "Cmd", List.of("echo", "hello"),
                    "HostConfig", Map.of("NetworkMode", "none")));
            try (Session session = box.startAttached()) {
                System.out.print(session.read().text());
            }
            long said = System.nanoTime();
            System.out.printf("%.1f ms to the first output, %.1f of them without opening and loading%n", (said - begun) / 1e6, (said - loaded) / 1e6);
            System.out.printf("%.2f us a call of hasFeature%n", micros(() -> Coracle.hasFeature("containers")));
            System.out.printf("%.2f us the operation of a call, with its deadline%n", micros(Hello::operation));
            box.remove();
        }
    }
}
