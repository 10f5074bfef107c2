// Execs and attaches by dockerode: URL COUNT RUNNING ENDED OUTPUT, with NODE_PATH where dockerode is. The output has
// the form of lost.py's.
const Docker = require('dockerode');
const { PassThrough } = require('stream');

const [url, count, running, ended, output] = process.argv.slice(2);
const at = new URL(url);
const where = at.protocol === 'unix:' ? { socketPath: at.pathname } : { host: at.hostname, port: at.port, protocol: 'http' };
const docker = new Docker({ ...where, version: 'v1.24' });

// All that a stream of frames says, to its end.
async function whole(stream) {
  const out = new PassThrough();
  let text = '';
  out.on('data', (piece) => { text += piece; });
  docker.modem.demuxStream(stream, out, out);
  await new Promise((ok, failed) => stream.on('end', ok).on('close', ok).on('error', failed));
  out.end();
  await new Promise((ok) => { if (out.readableEnded) ok(); else out.on('end', ok); });
  return text;
}

async function main() {
  for (let number = 0; number < Number(count); number++) {
    const said = `hello ${number}`;
    const exec = await docker.getContainer(running).exec({ Cmd: ['echo', said], AttachStdout: true, AttachStderr: true });
    const out = await whole(await exec.start({ hijack: true, stdin: false }));
    if (out !== `${said}\n`) console.log('lost exec', JSON.stringify(out));
    const attached = await docker.getContainer(ended).attach({ stream: false, logs: true, stdout: true, stderr: true, hijack: true });
    const told = await whole(attached);
    if (told !== `${output}\n`) console.log('lost attach', JSON.stringify(told));
  }
  console.log('done', count);
}

main().catch((error) => { console.error(error); process.exit(1); });
