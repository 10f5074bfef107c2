// The binding's own tests: wrong use, forgotten handles, signals, streams, workers, children. run.sh says how they are run.
'use strict';

const assert = require('node:assert');
const {execFile} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {Readable} = require('node:stream');
const {after, before, test} = require('node:test');
const {setTimeout: pause} = require('node:timers/promises');
const {promisify} = require('node:util');
const {Worker} = require('node:worker_threads');
const coracle = require('..');
const {tarOf} = require('./tar.js');

const IMAGE = process.env.CORACLE_TEST_IMAGE;
// How long to wait, in milliseconds, for something that comes.
const LONG = Number(process.env.CORACLE_TEST_SECONDS ?? 300) * 1000;
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'cn-'));
const places = {root: `${dir}/root`, runDir: `${dir}/run`};
let engine;
let image;

const spec = (...command) => ({Image: image, Cmd: command, HostConfig: {NetworkMode: 'none'}});
const descriptors = () => fs.readdirSync('/proc/self/fd').length;

/** Waits until a fact is one. */
async function until(fact) {
  for (const end = performance.now() + LONG; !fact();) {
    assert.ok(performance.now() < end, `it does not become so: ${fact}`);
    await pause(20);
  }
}

/** A running container for a test, which removes it. */
async function running(t, ...command) {
  const box = await engine.containers.create(spec(...command));
  t.after(() => box.remove({force: true}));
  await box.start();
  return box;
}

/** Runs a program with an engine of its own: its exit code, what ended it, and its output. */
async function program(body, environment = {}) {
  const code = `
    const fs = require('node:fs');
    const coracle = require(${JSON.stringify(path.resolve(__dirname, '..'))});
    const {places, image, spec} = ${JSON.stringify({places, image, spec: spec('sleep', '1000')})};
    const open = () => coracle.open(places.root, {runDir: places.runDir, config: {durability: 'off'}});
    const code = (error) => error.code;
    (async () => {${body}})();`;
  const options = {timeout: LONG, env: {...process.env, ...environment}};
  return new Promise((resolve) => execFile(process.execPath, ['-e', code], options, (error, stdout, stderr) => {
    resolve({code: error ? error.code : 0, killed: error?.signal ?? null, stdout, stderr});
  }));
}

/** What a program that ends well says. */
async function said(body, environment) {
  const end = await program(body, environment);
  assert.deepStrictEqual([end.code, end.killed], [0, null], `${end.stdout}${end.stderr}`);
  return end.stdout;
}

before(async () => {
  engine = await coracle.open(places.root, {runDir: places.runDir, config: {durability: 'off'}});
  [image] = await engine.images.load(IMAGE);
});

after(async () => {
  // A test that failed may leave containers.
  for (const {Id} of await engine.containers.list({all: true})) await engine.containers.get(Id).remove({force: true});
  engine.close();
  fs.rmSync(dir, {recursive: true});
});

test('a closed handle is an error of its own kind', async () => {
  const other = engine.again();
  other.close();
  other.close();
  await assert.rejects(other.info(), coracle.MisuseError);
  await assert.rejects(other.containers.list(), {code: 'MISUSE'});
  assert.throws(() => other.again(), coracle.MisuseError);
  assert.throws(() => other.connect(), coracle.MisuseError);
  const events = await engine.events();
  events.close();
  await assert.rejects(events.next(), coracle.MisuseError);
});

test('values of wrong types are errors, whatever the call', async () => {
  const wrong = {code: 'ERR_INVALID_ARG_TYPE'};
  await assert.rejects(coracle.open(5), wrong);
  await assert.rejects(engine.containers.create('text'), wrong);
  await assert.rejects(engine.images.inspect(undefined), wrong);
  await assert.rejects(engine.info({signal: 'no'}), wrong);
  await assert.rejects(engine.info({timeout: -1}), coracle.InvalidError);
  await assert.rejects(engine.images.load({}).then(), wrong);
  await assert.rejects(engine.images.load([1, 2]).then(), wrong);
  assert.throws(() => engine.containers.get(null), wrong);
  await assert.rejects(engine.images.inspect('a\0b'), {code: 'INVALID'});
  assert.throws(() => engine.containers.get('a\0b'), coracle.InvalidError);
  assert.throws(() => Object.getOwnPropertyDescriptor(coracle.Session.prototype, 'stdin').get.call({}), TypeError);
});

test('the raw layer refuses what is no handle of its kind', async () => {
  const {addon, functions} = require('../lib/native.js');
  const events = await engine.events();
  assert.throws(() => addon.sync(functions.ref, [{}]), TypeError);
  assert.throws(() => addon.sync(functions.ref, []), TypeError);
  assert.throws(() => addon.sync(functions.ref, 5), TypeError);
  assert.throws(() => addon.sync(12345, []), /no such function/);
  addon.cancel(null);
  addon.answer({}, 1);
  events.close();
});

test('errors have a class, a code, a status, and the path of the member', async () => {
  const wrong = engine.containers.create({Image: image, HostConfig: {Memory: 'lots'}});
  await assert.rejects(wrong, (error) => {
    assert.ok(error instanceof coracle.InvalidError && error instanceof coracle.CoracleError && error instanceof Error);
    assert.deepStrictEqual([error.code, error.status, error.field], ['INVALID', 400, 'HostConfig.Memory']);
    return true;
  });
});

test('a signal ends a wait and a call on a thread; its reason is the cause', async (t) => {
  const box = await running(t, 'sleep', '1000');
  const control = new AbortController();
  const wait = box.wait({signal: control.signal});
  const stop = box.stop({graceMs: -1, signal: control.signal});
  setImmediate(() => control.abort(new Error('enough')));
  const ended = (error) => error instanceof coracle.CancelledError && error.name === 'AbortError' && error.cause.message === 'enough';
  await Promise.all([wait, stop].map((call) => assert.rejects(call, ended)));
  await assert.rejects(box.wait({signal: AbortSignal.abort()}), coracle.CancelledError);
  await assert.rejects(box.wait({timeout: 10}), coracle.TimeoutError);
  await assert.rejects(box.wait({signal: AbortSignal.timeout(10)}), coracle.TimeoutError);
  const events = await engine.events();
  await assert.rejects(events.next({signal: AbortSignal.timeout(10)}), coracle.TimeoutError);
  events.close();
});

test('an archive that never comes is ended by a deadline and by a signal', async () => {
  const never = () => new Readable({read() {}});
  await assert.rejects(engine.images.load(never(), {timeout: 50}).then(), coracle.TimeoutError);
  await assert.rejects(engine.images.load(never(), {signal: AbortSignal.timeout(50)}).then(), coracle.TimeoutError);
  async function* silent() {
    await new Promise(() => {});
    yield Buffer.alloc(1);
  }
  await assert.rejects(engine.images.load(silent(), {timeout: 50}).then(), coracle.TimeoutError);
});

test('archives go in and out as streams, and a slow reader holds them up', async () => {
  const body = await engine.images.save(image);
  assert.ok(fs.statSync(IMAGE).size > 4 * body.readableHighWaterMark, 'the archive is larger than what the stream keeps');
  body.read(0);
  await until(() => body.readableLength > 0);
  await pause(100);
  // Only as much as the stream keeps was taken.
  assert.ok(body.readableLength <= 2 * body.readableHighWaterMark, `${body.readableLength} bytes`);
  const names = await engine.images.load(body);
  assert.deepStrictEqual(names, ['busybox:latest']);
  const cut = await engine.images.save(image);
  cut.destroy();
  await assert.rejects(engine.images.load(Readable.from([Buffer.from('no tar')])).then(), coracle.InvalidError);
});

test('progress comes to an iterator, and a loop that ends early leaves the call alone', async () => {
  const records = [];
  const work = engine.images.load(fs.createReadStream(IMAGE));
  for await (const record of work) records.push(record);
  assert.ok(records.some((record) => record.stream?.includes('busybox')), JSON.stringify(records));
  assert.deepStrictEqual(await work, ['busybox:latest']);
  const other = engine.images.load(IMAGE);
  for await (const record of other) if (record) break;
  assert.deepStrictEqual(await other, ['busybox:latest']);
});

test('a process reads as fast as its writer gives, and its output waits for its reader', async (t) => {
  const box = await engine.containers.create({...spec('cat'), OpenStdin: true, StdinOnce: true});
  t.after(() => box.remove({force: true}));
  const session = await box.startAttached();
  let sent = 0;
  const piece = Buffer.alloc(65536, 'x');
  while (session.stdin.write(piece)) sent++;
  session.stdin.end();
  let got = 0;
  for await (const data of session.stdout) got += data.length;
  assert.strictEqual(got, (sent + 1) * piece.length);
  assert.strictEqual(await session.wait(), 0);
  session.close();
});

test('the end of a handle ends the reads that wait for it, and the program', async () => {
  const told = await said(`
    const engine = await open();
    const box = await engine.containers.create(spec);
    await box.start();
    const events = await engine.events();
    const logs = await box.logs({follow: true});
    const {body} = await engine.request('GET', '/events');
    const reads = [events.next(), events.next(), logs.next()];
    body.read(0);
    await new Promise((resolve) => setImmediate(resolve));
    events.close();
    logs.close();
    body.destroy();
    console.log((await Promise.all(reads.map((read) => read.catch(code)))).join());
    await box.remove({force: true});
    engine.close();`);
  assert.strictEqual(told, 'MISUSE,MISUSE,MISUSE\n');
});

test('the error of a call that fails while its loop is busy is the loop\'s', async () => {
  const context = tarOf({Dockerfile: 'FROM busybox:latest\nLABEL a=b\nLABEL c=d\n'}).toString('base64');
  const told = await said(`
    const engine = await open();
    let failed;
    const failing = new Promise((resolve) => { failed = resolve; });
    let records = 0;
    const work = engine.images.build(Buffer.from('${context}', 'base64'), {onProgress() {
      if (++records === 1) return;
      failed();
      throw Object.assign(new Error('enough'), {code: 'ENOUGH'});
    }});
    try {
      for await (const record of work) {
        await failing;
        // The call's end comes meanwhile.
        await new Promise((resolve) => setTimeout(resolve, 300));
        console.log(typeof record);
      }
    } catch (error) {
      console.log(error.code);
    }
    engine.close();`);
  assert.strictEqual(told, 'object\nENOUGH\n');
});

/** What a call comes to: its error's name; not by then: that it waits. */
const outcome = (call) => Promise.race([call.then(() => 'done', (error) => error.name), pause(LONG, 'it waits', {ref: false})]);

test('reads that wait, and runs of commands, have deadlines', async (t) => {
  const box = await running(t, 'sleep', '1000');
  // No plugin has events here.
  const filters = {type: ['plugin']};
  const events = [await engine.events({filters}), await engine.events({filters})];
  const logs = [await box.logs({follow: true}), await box.logs({follow: true})];
  const session = await box.attach();
  t.after(() => [...events, ...logs, session].forEach((one) => one.close()));
  const limit = {timeout: 50};
  const waits = [
    events[0].next(limit), events[1].all(limit).next(), logs[0].next(limit), logs[1].lines(limit).next(),
    session.communicate(null, limit), box.run(['sleep', '1000'], {timeout: 200}),
  ].map(outcome);
  assert.deepStrictEqual(await Promise.all(waits), waits.map(() => 'TimeoutError'));
  // A deadline that did not pass changes nothing.
  assert.strictEqual((await box.run(['echo', 'hello'], {timeout: LONG})).stdout.toString(), 'hello\n');
  await assert.rejects(box.run(['true'], {timeout: 'soon'}), {code: 'ERR_INVALID_ARG_TYPE'});
  await assert.rejects(session.communicate(null, {timeout: -1}), coracle.InvalidError);
});

test('communicate ends by an aborted signal, and by an input that fails', async (t) => {
  const box = await engine.containers.create({...spec('cat'), OpenStdin: true, StdinOnce: true});
  t.after(() => box.remove({force: true}));
  const session = await box.startAttached();
  t.after(() => session.close());
  assert.strictEqual(await outcome(session.communicate('hello', {signal: AbortSignal.abort()})), 'AbortError');
  const control = new AbortController();
  const late = session.communicate((async function* silent() {
    await new Promise(() => {});
  })(), {signal: control.signal});
  control.abort();
  assert.strictEqual(await outcome(late), 'AbortError');
  const told = await said(`
    const engine = await open();
    const box = await engine.containers.create({...spec, Cmd: ['cat'], OpenStdin: true, StdinOnce: true});
    const session = await box.startAttached();
    async function* broken() {
      yield Buffer.from('some');
      throw Object.assign(new Error('broken'), {code: 'BROKEN'});
    }
    console.log(await session.communicate(broken()).catch(code));
    session.close();
    await box.remove({force: true});
    engine.close();`);
  assert.strictEqual(told, 'BROKEN\n');
});

test('buildDir with wrong arguments keeps no descriptor, and its error is told', async () => {
  const before = descriptors();
  for (let i = 0; i < 50; i++) {
    assert.throws(() => engine.images.buildDir(dir, {query: 5}), {code: 'ERR_INVALID_ARG_TYPE'});
    await assert.rejects(async () => engine.images.buildDir(dir, {onProgress: 5}), {code: 'ERR_INVALID_ARG_TYPE'});
    await assert.rejects(async () => engine.images.buildDir(`${dir}/none`), {code: 'ENOENT'});
  }
  // The engine keeps some connections of its database; a leak would be 50 descriptors or more.
  assert.ok(descriptors() <= before + 12, `${descriptors()} descriptors after ${before}`);
  const closed = engine.again();
  closed.close();
  assert.throws(() => closed.images.buildDir(dir), coracle.MisuseError);
  const end = await program(`
    const engine = await open();
    engine.images.buildDir(${JSON.stringify(dir)}, {query: {dockerfile: 'none'}});`);
  assert.strictEqual(end.code, 1, end.stderr);
  assert.match(end.stderr, /Cannot locate specified Dockerfile/);
});

test('the loop goes on while many calls block', async (t) => {
  const box = await running(t, 'sleep', '1000');
  const control = new AbortController();
  // More than libuv has threads.
  const calls = Array.from({length: 20}, () => box.stop({graceMs: -1, signal: control.signal}).catch((error) => error.code));
  await fs.promises.readFile(__filename);
  await engine.version();
  control.abort();
  assert.deepStrictEqual(new Set(await Promise.all(calls)), new Set(['CANCELLED']));
});

test('a child of the program has none of the library\'s descriptors', async (t) => {
  const box = await running(t, 'sleep', '1000');
  const wait = box.wait();
  const {stdout} = await promisify(execFile)('sh', ['-c', 'ls -l /proc/$$/fd']);
  // The shell has its three standard streams, and the directory that it lists.
  assert.ok(!stdout.includes(dir) && !/eventpoll|timerfd|memfd|pidfd/.test(stdout), stdout);
  await box.kill();
  assert.strictEqual(await wait, 137);
});

test('handles that are forgotten end, and descriptors with them', async () => {
  assert.ok(global.gc, 'run with --expose-gc');
  const before = descriptors();
  // The engine keeps some connections of its database; a leak would be 50 descriptors or more.
  for (let i = 0; i < 50; i++) {
    await engine.events();
    engine.again();
    (await engine.images.save(image)).on('error', () => {});
  }
  await until(() => {
    global.gc();
    return descriptors() <= before + 12;
  });
});

test('a hundred lives leave nothing', async () => {
  const life = async () => {
    const box = await engine.containers.create({...spec('sh', '-c', 'cat; exit 3'), OpenStdin: true, StdinOnce: true});
    const session = await box.startAttached();
    const {stdout} = await session.communicate('hello');
    assert.strictEqual(stdout.toString(), 'hello');
    assert.strictEqual(await session.wait(), 3);
    session.close();
    await box.remove();
  };
  const four = () => Promise.all([life(), life(), life(), life()]);
  await four();
  const before = descriptors();
  const lives = Number(process.env.CORACLE_LIVES ?? 100);
  for (let done = 0; done < lives; done += 4) await four();
  // The engine keeps some connections of its database; a leak would be one descriptor for each life.
  await until(() => descriptors() <= before + 12);
  assert.deepStrictEqual(await engine.containers.list({all: true}), []);
});

const WORK = `
const {workerData, parentPort} = require('node:worker_threads');
const coracle = require(workerData.binding);
(async () => {
  const engine = await coracle.open(workerData.root, {runDir: workerData.runDir, config: {durability: 'off'}});
  const box = await engine.containers.create(workerData.spec);
  await box.start();
  const wait = box.wait();
  if (workerData.stays) {
    parentPort.postMessage({started: box.id});
    await wait;
  }
  const code = await wait;
  await box.remove();
  engine.close();
  parentPort.postMessage({code});
})();
`;

const worker = (more) => new Worker(WORK, {eval: true, workerData: {...places, binding: path.resolve(__dirname, '..'), ...more}});
const told = (from) => new Promise((resolve, reject) => from.once('message', resolve).once('error', reject));

test('two workers have an engine each', async () => {
  const both = [worker({spec: spec('sh', '-c', 'exit 4')}), worker({spec: spec('sh', '-c', 'exit 4')})];
  const ends = both.map((one) => new Promise((resolve) => one.once('exit', resolve)));
  assert.deepStrictEqual(await Promise.all(both.map(told)), [{code: 4}, {code: 4}]);
  assert.deepStrictEqual(await Promise.all(ends), [0, 0]);
});

test('a worker that is ended in the middle of calls takes nothing along', async () => {
  const one = worker({spec: spec('sleep', '1000'), stays: true});
  const {started} = await told(one);
  await one.terminate();
  const box = engine.containers.get(started);
  assert.strictEqual((await box.inspect()).State.Running, true);
  await box.remove({force: true});
});

test('a server serves until it is closed', async () => {
  const server = await engine.serve({addresses: [`unix://${dir}/s.sock`]});
  assert.deepStrictEqual(server.addresses, [`unix://${dir}/s.sock`]);
  await server.close();
  assert.throws(() => server.addresses, coracle.MisuseError);
});

test('workers that set the log at once and end leave no sink behind', async () => {
  // Freed memory has other content at once, so a use of it shows.
  const told = await said(`
    const {Worker} = require('node:worker_threads');
    const work = \`
      const {workerData} = require('node:worker_threads');
      const coracle = require(workerData.binding);
      const set = () => coracle.setLog('debug', () => {});
      set();
      Atomics.add(workerData.state, 0, 1);
      while (!Atomics.load(workerData.state, 1)) set();
    \`;
    const binding = ${JSON.stringify(path.resolve(__dirname, '..'))};
    const life = (state) => new Promise((resolve, reject) => {
      new Worker(work, {eval: true, workerData: {binding, state}})
        .once('exit', resolve).once('error', reject);
    });
    const engine = await open();
    for (let i = 0; i < 10; i++) {
      const state = new Int32Array(new SharedArrayBuffer(8));
      const lives = [life(state), life(state), life(state), life(state)];
      while (Atomics.load(state, 0) < 4) await new Promise((resolve) => setTimeout(resolve, 10));
      Atomics.store(state, 1, 1);
      await Promise.all(lives);
      const box = await engine.containers.create(spec);
      await box.start();
      await box.remove({force: true});
    }
    engine.close();
    console.log('ended');`, {MALLOC_PERTURB_: '165'});
  assert.strictEqual(told, 'ended\n');
});

const modules = process.env.CORACLE_NODE_MODULES;

test('dockerode in one line', {skip: !modules && 'dockerode is not installed'}, async (t) => {
  const docker = coracle.dockerode(engine, require(path.join(modules, 'dockerode')));
  const box = await docker.createContainer({...spec('cat'), OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true});
  t.after(() => box.remove({force: true}));
  const stream = await box.attach({stream: true, hijack: true, stdin: true, stdout: true, stderr: true});
  await box.start();
  stream.end('by dockerode');
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  assert.match(Buffer.concat(pieces).toString(), /by dockerode/);
  assert.strictEqual((await box.wait()).StatusCode, 0);
});
