import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.output.WaitingConsumer;
import org.testcontainers.containers.startupcheck.OneShotStartupCheckStrategy;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;

/** Testcontainers for Java without its reaper, on an image that is here; the last line is `done`. */
public class Job {
    static void same(Object found, Object wanted) {
        if (!found.equals(wanted)) throw new AssertionError("found " + found + ", wanted " + wanted);
    }

    static GenericContainer<?> busybox(Network network, String... command) {
        return new GenericContainer<>("busybox:latest").withNetwork(network).withCommand(command);
    }

    public static void main(String[] arguments) throws Exception {
        String script = "echo ready; echo hi > /index.html; exec httpd -f -p 8080 -h /";
        try (Network network = Network.newNetwork();
                GenericContainer<?> server = busybox(network, "sh", "-c", script);
                GenericContainer<?> client = busybox(network, "wget", "-qO-", "http://web:8080/index.html")) {
            server.withEnv("KIND", "server").withExposedPorts(8080).withNetworkAliases("web")
                    .withCopyToContainer(Transferable.of("copied\n"), "/copied")
                    .waitingFor(Wait.forHttp("/index.html").forPort(8080)).start();
            var told = server.execInContainer("sh", "-c", "echo $KIND; cat /copied; exit 3");
            same(told.getExitCode(), 3);
            same(told.getStdout(), "server\ncopied\n");
            same(server.copyFileFromContainer("/copied", stream -> new String(stream.readAllBytes())), "copied\n");
            String address = "http://" + server.getHost() + ":" + server.getMappedPort(8080) + "/index.html";
            var page = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(address)).build(), BodyHandlers.ofString());
            same(page.body(), "hi\n");
            client.withStartupCheckStrategy(new OneShotStartupCheckStrategy());
            WaitingConsumer lines = new WaitingConsumer();
            client.withLogConsumer(lines).start();
            lines.waitUntil(frame -> frame.getUtf8String().startsWith("hi"));
            same(client.getLogs(), "hi\n");
            same(server.isRunning(), true);
        }
        System.out.println("done");
    }
}
