// A program that uses the types: it is compiled, and does not run.
import * as coracle from '../lib/index.js';

export async function program(): Promise<number> {
  const engine = await coracle.open('/root', {runDir: '/run', config: {durability: 'off'}});
  const work: coracle.Work<string> = engine.images.pull('busybox', {
    platform: 'linux/arm64', signal: new AbortController().signal, onProgress: (record) => record.status,
  });
  for await (const record of work) record.stream?.trim();
  const id: string = await work;
  const box = await engine.containers.create({Image: id}, {name: 'box', timeout: 5});
  const session = await box.startAttached({rows: 3});
  const {stdout} = await session.communicate('text');
  for await (const line of await box.logs({follow: true})) line.text.toUpperCase();
  for await (const event of await engine.events()) event.Actor.ID.toUpperCase();
  // @ts-expect-error: a name is a string.
  engine.containers.get(5);
  // @ts-expect-error: there is no such member.
  await box.wait({until: 3});
  return stdout.length + (await box.wait({condition: 'next-exit'}));
}
