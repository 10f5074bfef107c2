// Hello ROOT [CALLS]: prints a container's hello, then waits for the end of its input; or what a call takes, in nanoseconds.
import dev.coracle.Container;
import dev.coracle.Coracle;
import dev.coracle.Document;
import dev.coracle.Engine;
import dev.coracle.Session;
import java.util.List;
import java.util.Map;

public class Hello {
    static void hello(Engine engine) throws Exception {
        Container box = engine.containers().create(Document.of(
                "Image", "busybox", "Cmd", List.of("echo", "hello"), "HostConfig", Map.of("NetworkMode", "none")));
        try (Session session = box.startAttached()) {
            System.out.print(session.communicate("").text());
            System.out.flush();
        }
        box.remove();
        System.in.readAllBytes();
    }

    static void calls(Engine engine, int count) {
        long begun = System.nanoTime();
        for (int done = 0; done < count; done++) {
            engine.containers().list();
        }
        System.out.println((System.nanoTime() - begun) / count);
    }

    public static void main(String[] arguments) throws Exception {
        try (Engine engine = Coracle.open(arguments[0])) {
            if (arguments.length > 1) {
                calls(engine, Integer.parseInt(arguments[1]));
            } else {
                hello(engine);
            }
        }
    }
}
