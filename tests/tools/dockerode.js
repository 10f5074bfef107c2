// The calls of dockerode, which names no version of the API; the last line is `done`.
const assert = require("node:assert");
const Docker = require("dockerode");

async function main() {
  const docker = new Docker({ socketPath: process.argv[2] });
  assert.equal((await docker.version()).ApiVersion, "1.54");
  const host = { NetworkMode: "none" };
  const container = await docker.createContainer({ Image: "busybox", Cmd: ["sleep", "1000"], HostConfig: host, StopTimeout: 0 });
  await container.start();
  const exec = await container.exec({ Cmd: ["sh", "-c", "echo $K"], Env: ["K=v"], AttachStdout: true });
  const stream = await exec.start({});
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  assert.equal(Buffer.concat(chunks).subarray(8).toString(), "v\n");
  const waits = container.wait({ condition: "next-exit" });
  await container.stop();
  assert.equal((await waits).StatusCode, 137);
  const removed = await docker.createContainer({ Image: "busybox", Cmd: ["true"], HostConfig: { ...host, AutoRemove: true } });
  const gone = removed.wait({ condition: "removed" });
  await removed.start();
  assert.equal((await gone).StatusCode, 0);
  await docker.createVolume({ Name: "dockerode" });
  const usage = await docker.df();
  assert.ok(usage.Images.length > 0 && usage.Volumes.length > 0);
  assert.deepEqual((await docker.pruneVolumes({ filters: { all: ["true"] } })).VolumesDeleted, ["dockerode"]);
  assert.deepEqual((await docker.pruneContainers()).ContainersDeleted, [container.id]);
  await docker.pruneNetworks();
  await assert.rejects(docker.listSecrets(), (error) => error.statusCode === 503);
  assert.deepEqual(await docker.listPlugins(), []);
  console.log("done");
}

main().catch((error) => {
  console.log(error);
  process.exit(1);
});
