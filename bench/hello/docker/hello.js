// hello.js SOCKET: prints a container's hello by dockerode, then waits for the end of its input.
const Docker = require('dockerode');

async function main() {
  const docker = new Docker({socketPath: process.argv[2]});
  const [, container] = await docker.run('busybox', ['echo', 'hello'], [process.stdout, process.stderr], {Tty: false, HostConfig: {NetworkMode: 'none'}});
  await container.remove();
  for await (const _ of process.stdin);
}

main();
