// Hello SOCKET: prints a container's hello by docker-java, then waits for the end of its input.
import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.async.ResultCallback;
import com.github.dockerjava.api.command.WaitContainerResultCallback;
import com.github.dockerjava.api.model.Frame;
import com.github.dockerjava.api.model.HostConfig;
import com.github.dockerjava.core.DefaultDockerClientConfig;
import com.github.dockerjava.core.DockerClientImpl;
import com.github.dockerjava.zerodep.ZerodepDockerHttpClient;
import java.net.URI;

public class Hello {
    public static void main(String[] arguments) throws Exception {
        URI socket = URI.create("unix://" + arguments[0]);
        ZerodepDockerHttpClient http = new ZerodepDockerHttpClient.Builder().dockerHost(socket).build();
        DockerClient docker = DockerClientImpl.getInstance(DefaultDockerClientConfig.createDefaultConfigBuilder().build(), http);
        String id = docker.createContainerCmd("busybox").withCmd("echo", "hello")
                .withHostConfig(HostConfig.newHostConfig().withNetworkMode("none")).exec().getId();
        ResultCallback.Adapter<Frame> output = new ResultCallback.Adapter<>() {
            @Override
            public void onNext(Frame frame) {
                System.out.writeBytes(frame.getPayload());
                System.out.flush();
            }
        };
        docker.attachContainerCmd(id).withStdOut(true).withStdErr(true).withFollowStream(true).exec(output);
        output.awaitStarted();
        docker.startContainerCmd(id).exec();
        docker.waitContainerCmd(id).exec(new WaitContainerResultCallback()).awaitStatusCode();
        output.awaitCompletion();
        docker.removeContainerCmd(id).exec();
        System.in.readAllBytes();
        docker.close();
    }
}
