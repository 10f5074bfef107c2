// A job by dockerode at API 1.24: node dockerode.js SOCKET CONTEXT, with NODE_PATH where dockerode is. Each line that it
// prints is something that the test compares.
const Docker = require('dockerode');
const { PassThrough } = require('stream');

const [socketPath, context] = process.argv.slice(2);
const docker = new Docker({ socketPath, version: 'v1.24' });
const say = (...words) => console.log(words.map((w) => (typeof w === 'string' ? w : JSON.stringify(w))).join(' '));
const none = { NetworkMode: 'none' };

// A stream that keeps its text.
function sink() {
  const stream = new PassThrough();
  stream.text = '';
  stream.on('data', (piece) => { stream.text += piece; });
  return stream;
}
// A container's output may come a moment after the report of its end: they travel apart.
async function arrives(come) {
  for (let turns = 0; turns < 1000 && !come(); turns++) await new Promise((ok) => setTimeout(ok, 10));
}
const ended = (stream) => new Promise((ok, failed) => stream.on('end', ok).on('error', failed));

async function main() {
  say('version', (await docker.version()).ApiVersion);

  const out = sink();
  const err = sink();
  const [code, ran] = await docker.run('busybox', ['sh', '-c', 'echo out; echo err >&2; exit 3'], [out, err],
    { Tty: false, HostConfig: none });
  await arrives(() => out.text && err.text);
  say('run', code, out.text, err.text);
  await ran.remove();

  const reader = await docker.createContainer({ Image: 'busybox', name: 'reader', HostConfig: none, OpenStdin: true,
    AttachStdin: true, StdinOnce: true, Cmd: ['sh', '-c', 'while read line; do echo got $line; done'] });
  const session = await reader.attach({ stream: true, stdin: true, stdout: true, stderr: true, hijack: true });
  const got = sink();
  docker.modem.demuxStream(session, got, got);
  await reader.start();
  session.write('a\n');
  session.end('b\n');
  const status = await reader.wait();
  await arrives(() => got.text.endsWith('b\n'));
  say('attach', status, got.text);
  say('logs', docker.modem.demuxStream ? (await reader.logs({ stdout: true })).length : 0);
  await reader.remove();

  const long = await docker.createContainer({ Image: 'busybox', name: 'long', Tty: true, Cmd: ['sleep', '1000'],
    HostConfig: none });
  await long.start();
  const exec = await long.exec({ Cmd: ['sh', '-c', 'cat; exit 5'], AttachStdin: true, AttachStdout: true });
  const second = await exec.start({ hijack: true, stdin: true });
  const echoed = sink();
  docker.modem.demuxStream(second, echoed, echoed);
  second.end('typed\n');
  await ended(second);
  say('exec', echoed.text, (await exec.inspect()).ExitCode);
  const sample = await long.stats({ stream: false });
  say('stats', sample.memory_stats.usage > 0, sample.read.startsWith('20'));
  say('top', (await long.top()).Processes.map((row) => row[row.length - 1]));
  say('list', (await docker.listContainers()).map((c) => [c.Names, c.State]));
  await long.rename({ name: 'renamed' });
  await long.resize({ h: 30, w: 90 });
  await long.pause();
  say('paused', (await long.inspect()).State.Status);
  await long.unpause();
  await long.update({ Memory: 64 << 20, MemorySwap: 128 << 20 });
  say('limit', (await long.inspect()).HostConfig.Memory);
  const archive = await long.getArchive({ path: '/etc/passwd' });
  const tar = sink();
  archive.pipe(tar);
  await ended(tar);
  say('archive', tar.text.slice(0, 6), tar.text.length);
  await long.stop({ t: 0 });
  await long.remove({ v: true });
  const until = Math.floor(Date.now() / 1000) + 1;
  const events = sink();
  (await docker.getEvents({ since: 1, until, filters: { container: [long.id], event: ['start', 'pause', 'destroy'] } }))
    .pipe(events);
  await ended(events);
  say('events', events.text.trim().split('\n').map((line) => JSON.parse(line).Action));

  const volume = await docker.createVolume({ Name: 'kept' });
  say('volume', (await docker.getVolume('kept').inspect()).Driver, (await docker.listVolumes()).Volumes.length);
  await docker.getVolume(volume.name || 'kept').remove();
  const network = await docker.createNetwork({ Name: 'wire', CheckDuplicate: true });
  say('network', (await network.inspect()).Driver, (await docker.listNetworks()).length);
  await network.remove();

  const building = await docker.buildImage({ context, src: ['Dockerfile'] }, { t: 'made:once' });
  const steps = await new Promise((ok, failed) =>
    docker.modem.followProgress(building, (error, lines) => (error ? failed(error) : ok(lines))));
  say('build', steps[steps.length - 1].stream);
  const made = docker.getImage('made:once');
  say('history', (await made.history()).length);
  await made.tag({ repo: 'other/name', tag: 'two' });
  say('images', (await docker.listImages()).flatMap((image) => image.RepoTags).sort());
  await docker.getImage('other/name:two').remove();
  await made.remove();
  await docker.getContainer('nobody').inspect().catch((error) => say('missing', error.statusCode, error.json.message));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
