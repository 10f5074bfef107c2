import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.async.ResultCallback;
import com.github.dockerjava.api.command.WaitContainerResultCallback;
import com.github.dockerjava.api.exception.NotFoundException;
import com.github.dockerjava.api.model.Frame;
import com.github.dockerjava.api.model.HostConfig;
import com.github.dockerjava.core.DefaultDockerClientConfig;
import com.github.dockerjava.core.DockerClientImpl;
import dev.coracle.Coracle;
import dev.coracle.DockerTransport;
import dev.coracle.Engine;
import dev.coracle.OpenOptions;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** docker-java's own client over an engine in this program. */
public final class DockerJava {
    private static int passed;

    private DockerJava() {}

    private static void same(String what, Object expected, Object got) {
        if (!java.util.Objects.equals(expected, got)) {
            throw new AssertionError(what + ": wanted " + expected + ", got " + got);
        }
        passed++;
    }

    /** Keeps the text of frames. */
    private static final class Text extends ResultCallback.Adapter<Frame> {
        private final StringBuffer text = new StringBuffer();

        @Override
        public void onNext(Frame frame) {
            text.append(frame.getStreamType()).append(' ').append(new String(frame.getPayload(), StandardCharsets.UTF_8));
        }
    }

    private static void life(DockerClient docker) throws Exception {
        try (InputStream archive = Files.newInputStream(Path.of(System.getenv("CORACLE_TEST_IMAGE")))) {
            docker.loadImageCmd(archive).exec();
        }
        same("images", 1, docker.listImagesCmd().exec().size());
        String id = docker.createContainerCmd("busybox").withCmd("sh", "-c", "read line; echo got $line; echo bad >&2; exit 3")
                .withStdinOpen(true).withStdInOnce(true).withHostConfig(HostConfig.newHostConfig().withNetworkMode("none")).exec().getId();
        Text attached = new Text();
        docker.attachContainerCmd(id).withStdIn(new ByteArrayInputStream("words\n".getBytes(StandardCharsets.UTF_8)))
                .withStdOut(true).withStdErr(true).withFollowStream(true).exec(attached);
        attached.awaitStarted(300, TimeUnit.SECONDS);
        docker.startContainerCmd(id).exec();
        same("exit code", 3, docker.waitContainerCmd(id).exec(new WaitContainerResultCallback()).awaitStatusCode(300, TimeUnit.SECONDS));
        same("attached", true, attached.awaitCompletion(300, TimeUnit.SECONDS));
        same("output", true, attached.text.toString().contains("STDOUT got words"));
        same("problems", true, attached.text.toString().contains("STDERR bad"));
        Text logs = new Text();
        same("logs end", true, docker.logContainerCmd(id).withStdOut(true).withFollowStream(true).exec(logs).awaitCompletion(300, TimeUnit.SECONDS));
        same("logs", "STDOUT got words\n", logs.text.toString());
        try (InputStream tar = docker.copyArchiveFromContainerCmd(id, "/etc").exec()) {
            same("an archive", true, tar.readAllBytes().length > 512);
        }
        docker.removeContainerCmd(id).exec();
        try {
            docker.inspectContainerCmd(id).exec();
            throw new AssertionError("a removed container is found");
        } catch (NotFoundException gone) {
            same("not found", true, gone.getMessage().contains(id));
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path dir = Files.createTempDirectory("dj-");
        OpenOptions options = OpenOptions.DEFAULTS.runDir(dir.resolve("run")).config(Map.of("durability", "off"));
        try (Engine engine = Coracle.open(dir.resolve("root"), options);
                DockerClient docker = DockerClientImpl.getInstance(
                        DefaultDockerClientConfig.createDefaultConfigBuilder().build(), new DockerTransport(engine))) {
            life(docker);
        }
        try (Stream<Path> all = Files.walk(dir)) {
            for (Path one : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(one);
            }
        }
        System.out.println(passed + " passed, 0 failed");
        System.exit(0);
    }
}
