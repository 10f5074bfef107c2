// hello.js ROOT IMAGE.tar: a container that says hello, and the times on standard error: from this line to hello, and of one call.
'use strict';

const begin = performance.now();
const coracle = require('libcoracle');

const CALLS = 2000;

async function main(root, archive) {
  const engine = await coracle.open(root, {runDir: `${root}-run`, config: {durability: 'off'}});
  const [image] = await engine.images.load(archive);
  const box = await engine.containers.create({Image: image, Cmd: ['echo', 'hello'], HostConfig: {NetworkMode: 'none'}});
  const session = await box.startAttached();
  const {stdout} = await session.communicate();
  process.stdout.write(stdout);
  const hello = performance.now() - begin;
  session.close();
  await box.wait();
  await box.remove();
  // version waits for nothing, so its time is the one of the way to a thread and back.
  const start = performance.now();
  for (let i = 0; i < CALLS; i++) await engine.version();
  const call = (performance.now() - start) / CALLS;
  console.error(`import, load of an image, first hello: ${hello.toFixed(1)} ms; a call: ${(call * 1000).toFixed(1)} us`);
  engine.close();
}

main(...process.argv.slice(2));
