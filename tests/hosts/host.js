// host.js ADDON ROOT RUN IMAGE: the main job on a thread of Node, whose event loop goes on with its own work and children;
// then a container's life by Node's own HTTP client over a private connection.
'use strict';
const http = require('node:http');
const net = require('node:net');
const {spawn} = require('node:child_process');

const [addon, root, run, image] = process.argv.slice(2);
const host = require(addon);
let passed = 0, failed = 0;

function check(fact, text) {
  if (fact) passed++; else failed++;
  if (!fact) console.log(`failed: ${text}`);
}

const child = () => new Promise((resolve) => spawn('sh', ['-c', 'exit 7'], {stdio: 'ignore'}).on('exit', resolve));
const lines = () => new Set(host.look(root, run).split('\n'));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Agent extends http.Agent {
  createConnection() {
    return new net.Socket({fd: host.connect(), readable: true, writable: true});
  }
}

const agent = new Agent({keepAlive: false});
function call(method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = body ? {'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body)} : {};
    const request = http.request({agent, method, path: `/v1.24${path}`, host: 'coracle', headers}, (answer) => {
      let text = '';
      answer.on('data', (data) => { text += data; });
      answer.on('end', () => resolve({status: answer.statusCode, text}));
    });
    request.on('error', reject).end(body);
  });
}

async function overHttp() {
  check(host.open(root, run) === 0, 'open');
  const body = JSON.stringify({Image: 'busybox', Cmd: ['echo', 'from node'], HostConfig: {NetworkMode: 'none'}});
  const created = await call('POST', '/containers/create?name=node', body);
  check(created.status === 201, created.text);
  check((await call('POST', '/containers/node/start')).status === 204, 'start');
  check(JSON.parse((await call('POST', '/containers/node/wait')).text).StatusCode === 0, 'wait');
  check((await call('GET', '/containers/node/logs?stdout=1')).text.includes('from node\n'), 'logs');
  check((await call('DELETE', '/containers/node')).status === 204, 'remove');
  host.close();
}

(async () => {
  let ticks = 0, running = true;
  await child();
  const before = lines();
  const timer = setInterval(() => ticks++, 5);
  const job = host.job(root, run, image).then((result) => { running = false; check(result === 0, `the main job: ${result}`); });
  while (running) {
    check(await child() === 7, 'the status of a child of its own');
    await pause(20);
  }
  await job;
  clearInterval(timer);
  // On a busy machine one tick stands for many.
  check(ticks > 0, 'its event loop went on');
  await overHttp();
  // Threads that end may take a moment.
  const end = performance.now() + 300000;
  const same = (one, other) => one.size === other.size && [...one].every((line) => other.has(line));
  let after = lines();
  while (!same(before, after) && performance.now() < end) {
    await pause(50);
    after = lines();
  }
  for (const line of before) check(after.has(line), `gone: ${line}`);
  for (const line of after) check(before.has(line), `come: ${line}`);
  check(await child() === 7, 'children work as before');
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
})();
