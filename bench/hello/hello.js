// hello.js ROOT [CALLS]: prints a container's hello, then waits for the end of its input; or what a call takes, in nanoseconds.
const coracle = require('libcoracle');

async function hello(engine) {
  const box = await engine.containers.create({Image: 'busybox', Cmd: ['echo', 'hello'], HostConfig: {NetworkMode: 'none'}});
  const session = await box.startAttached();
  process.stdout.write((await session.communicate('')).stdout);
  await session.wait();
  session.close();
  await box.remove();
  for await (const _ of process.stdin);
}

async function calls(engine, count) {
  const begun = process.hrtime.bigint();
  for (let done = 0; done < count; done++) await engine.containers.list();
  console.log(Number(process.hrtime.bigint() - begun) / count);
}

async function main() {
  const [root, count] = process.argv.slice(2);
  const engine = await coracle.open(root);
  await (count ? calls(engine, Number(count)) : hello(engine));
  engine.close();
}

main();
