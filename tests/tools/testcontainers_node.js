// Testcontainers for Node without its reaper, on an image that is here; the last line is `done`.
const assert = require("assert");
const { GenericContainer, Network, Wait } = require("testcontainers");

(async () => {
  const network = await new Network().start();
  const server = await new GenericContainer("busybox:latest")
    .withCommand(["sh", "-c", "echo ready; echo hi > /index.html; exec httpd -f -p 8080 -h /"])
    .withEnvironment({ KIND: "server" })
    .withExposedPorts(8080)
    .withNetwork(network)
    .withNetworkAliases("web")
    .withWaitStrategy(Wait.forLogMessage("ready"))
    .start();
  const told = await server.exec(["sh", "-c", "echo $KIND; exit 3"]);
  assert.deepStrictEqual([told.exitCode, told.output.trim()], [3, "server"]);
  const page = await fetch(`http://127.0.0.1:${server.getMappedPort(8080)}/index.html`);
  assert.strictEqual(await page.text(), "hi\n");
  const client = await new GenericContainer("busybox:latest")
    .withCommand(["sh", "-c", "wget -qO- http://web:8080/index.html; sleep 1000"])
    .withNetwork(network)
    .withWaitStrategy(Wait.forLogMessage("hi"))
    .start();
  await client.restart();
  await client.stop();
  await server.stop();
  await network.stop();
  console.log("done");
})().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
