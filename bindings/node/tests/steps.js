// Each step of the scenarios by the binding's own functions. `this` is the run.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const {pipeline} = require('node:stream/promises');
const {setImmediate: turn, setTimeout: pause} = require('node:timers/promises');
const coracle = require('..');
const {readable} = require('../lib/call.js');
const {filesOf, tarOf} = require('./tar.js');

/** A result that is not the expected one. */
class Wrong extends Error {}

/** An error of the caller's own function. */
class Caller extends Error {}

const coded = async (code) => ({code: await code});
const changed = async (value) => ({changed: await value});
const made = async (id) => ({id: await id});
const none = async (call) => {
  await call;
  return null;
};
const repeated = (value) => Buffer.from(value && typeof value === 'object' ? value.repeat.repeat(value.times) : value ?? '');

/** The archive of a step. */
function source(given) {
  if (given.broken) {
    return (async function* broken() {
      throw new Caller('the caller\'s own error');
    })();
  }
  if (given.path && given.do === 'image_load') return given.path;
  if (given.bytes !== undefined) return repeated(given.bytes);
  return tarOf(given.files);
}

/** The options of a call with progress. */
function progress(run, given, options) {
  if (given.refuse) {
    return {...options, onProgress() {
      throw new Caller('the caller\'s own error');
    }};
  }
  if (!given.progress) return options;
  const list = [];
  run.values[given.progress] = list;
  return {...options, onProgress: (record) => list.push(record)};
}

async function textOf(body) {
  const pieces = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

function plain(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text.trim();
  }
}

function requested(options) {
  return new Promise((resolve, reject) => {
    http.get(options, async (answer) => resolve({status: answer.statusCode, body: plain(await textOf(answer))})).on('error', reject);
  });
}

/** Whether a descriptor is readable now. */
async function ready(fd) {
  const control = new AbortController();
  const seen = readable(fd, {signal: control.signal}).then(() => true, () => false);
  // The loop looks at descriptors between two turns.
  await turn();
  await turn();
  await turn();
  control.abort();
  return seen;
}

const own = {
  scope(_, given) {
    this.things[given.as] = new AbortController();
  },
  cancel(_, given) {
    this.things[given.of].abort();
  },
  sleep: (_, given) => pause(given.ms),
  value: (_, given) => given.value,
  file_exists: (_, given) => fs.existsSync(given.path),
  spawn(_, given) {
    const done = this.steps(given.steps);
    done.catch(() => {});
    this.things[given.as] = {done};
  },
  async join(_, given) {
    try {
      await this.things[given.of].done;
    } catch (error) {
      throw new Wrong(error.message);
    }
  },
  async parallel(_, given) {
    await Promise.all(Array.from({length: given.times}, () => this.aside(given.steps))).catch((error) => {
      throw new Wrong(error.message);
    });
  },
};

const library = {
  version: () => ({text: coracle.version(), number: coracle.versionNumber()}),
  build_info: () => coracle.buildInfo(),
  has_feature: (_, given) => coracle.hasFeature(given.name),
  status_name: (_, given) => coracle.statusName(given.code),
  set_log(_, given) {
    const records = [];
    const names = ['', 'error', 'warn', 'info', 'debug'];
    this.things[given.as] = {records};
    coracle.setLog(names[given.level], (level, target, message) => records.push([names.indexOf(level), target, message]));
  },
  unset_log: () => coracle.setLog('info', null),
  log_records(_, given) {
    return this.things[given.of].records;
  },
  host_report: (_, given) => coracle.hostReport(given.root),
  async open(_, given) {
    const options = {runDir: given.run_dir, config: given.config};
    for (const flag of given.flags ?? []) options[flag] = true;
    this.things[given.as] = await coracle.open(given.root, options);
  },
  ref(engine, given) {
    this.things[given.as] = engine.again();
  },
  close: (engine) => engine.close(),
};

const root = {
  engine_info: (engine, _, options) => engine.info(options),
  engine_version: (engine) => engine.version(),
  engine_metrics: (engine) => engine.metrics(),
  engine_disk_usage: (engine, given, options) => engine.diskUsage({...given.query, ...options}),
  engine_reload: (engine, given) => engine.reload(given.labels, given.settings),
  root_verify(engine, given, options) {
    return engine.verify({...given.query, ...progress(this, given, options)});
  },
  root_leftovers: (engine) => engine.leftovers(),
  root_sweep: (engine, _, options) => engine.sweep(options),
  root_copy: (engine, given, options) => engine.copyRoot(given.dir, {...given.query, ...options}),
  root_import_docker: (engine, given, options) => engine.importDocker({...given.query, ...options}),
  async lease_hold(engine, given) {
    this.things[given.as] = await engine.lease(given.name);
  },
  lease_free(_, given) {
    this.things[given.of].close();
  },
};

const of = (engine, given) => engine.containers.get(given.id);

const container = {
  async container_create(engine, given, options) {
    const {id, warnings} = await engine.containers.create(given.body, {name: given.name, ...options});
    return {id, Warnings: warnings};
  },
  container_list: (engine, given) => engine.containers.list(given.query),
  container_prune: (engine, given, options) => engine.containers.prune({filters: given.filters, ...options}),
  container_inspect: (engine, given) => of(engine, given).inspect({size: given.size}),
  container_explain: (engine, given) => of(engine, given).explain(),
  container_top: (engine, given) => of(engine, given).top(given.ps_args),
  async container_stats(engine, given, options) {
    if (!given.count) return [await of(engine, given).stats(options)];
    const all = [];
    for await (const sample of of(engine, given).samples(options)) {
      if (all.push(sample) === given.count) break;
    }
    return all;
  },
  container_rename: (engine, given) => of(engine, given).rename(given.name),
  container_update: (engine, given, options) => of(engine, given).update(given.body, options),
  container_stat_path: (engine, given, options) => of(engine, given).statPath(given.path, options),
  async container_get_archive(engine, given, options) {
    const {body, stat} = await of(engine, given).getArchive(given.path, options);
    return {files: await filesOf(body), stat};
  },
  container_put_archive: (engine, given, options) => none(of(engine, given).putArchive(given.path, source(given), options)),
  async container_export(engine, given, options) {
    return {files: await filesOf(await of(engine, given).export(options))};
  },
  container_changes: (engine, given, options) => of(engine, given).changes(options),
  container_commit: (engine, given, options) => made(of(engine, given).commit({...given.query, ...options})),
  async container_start(engine, given, options) {
    if (!given.attach) return changed(of(engine, given).start(options));
    this.things[given.as] = await of(engine, given).startAttached({rows: given.rows, cols: given.cols, ...options});
    return {changed: true};
  },
  async container_attach(engine, given, options) {
    this.things[given.as] = await of(engine, given).attach({...given.query, ...options});
  },
  container_stop: (engine, given, options) => changed(of(engine, given).stop({graceMs: given.grace_ms, ...options})),
  container_stop_with: (engine, given, options) => changed(of(engine, given).stop({signalName: given.how.signal, graceMs: given.how.grace_ms, ...options})),
  container_restart: (engine, given, options) => of(engine, given).restart({graceMs: given.grace_ms, ...options}),
  container_restart_with: (engine, given, options) => of(engine, given).restart({signalName: given.how.signal, graceMs: given.how.grace_ms, ...options}),
  container_kill: (engine, given, options) => of(engine, given).kill(given.signal, options),
  container_pause: (engine, given, options) => of(engine, given).pause(options),
  container_unpause: (engine, given, options) => of(engine, given).unpause(options),
  container_wait: (engine, given, options) => coded(of(engine, given).wait({condition: given.condition, ...options})),
  async begin_wait(engine, given, options) {
    const code = of(engine, given).wait({condition: given.condition, ...options});
    code.catch(() => {});
    // An error of the work comes with its answer.
    if (given.error) await code;
    this.things[given.as] = {code};
  },
  pending_result(_, given) {
    return coded(this.things[given.of].code);
  },
  async container_pidfd(engine, given) {
    const fd = await of(engine, given).pidfd();
    const ended = await ready(fd);
    if (given.as) this.things[given.as] = {fd, close: () => fs.closeSync(fd)};
    else fs.closeSync(fd);
    return {ended};
  },
  async pidfd_wait(_, given) {
    await readable(this.things[given.of].fd);
  },
  container_remove: (engine, given, options) => of(engine, given).remove({force: given.force, volumes: given.volumes, ...options}),
};

async function readUntil(run, session, given, options) {
  const seen = run.read[given.of] ??= {stdout: '', stderr: ''};
  const there = () => given.until && (given.channel ? [given.channel] : ['stdout', 'stderr']).some((name) => seen[name].includes(given.until));
  if (!there()) {
    for await (const {channel, data} of session.output(options)) {
      seen[channel] += data;
      if (there()) break;
    }
  }
  if (given.until && !there()) throw new Wrong(`the output ended without ${given.until}: ${JSON.stringify(seen)}`);
  return seen;
}

const session = {
  session_read(_, given, options) {
    return readUntil(this, this.things[given.of], given, options);
  },
  async session_write(_, given, options) {
    return {count: await this.things[given.of].write(given.data, options)};
  },
  session_close_stdin(_, given) {
    this.things[given.of].closeStdin();
  },
  async session_streams(_, given, options) {
    const {stdout, stderr} = await this.things[given.of].communicate(repeated(given.input), options);
    return {stdout: stdout.toString(), stderr: stderr.toString()};
  },
  session_fd(_, given) {
    return this.things[given.of].has(given.channel);
  },
  session_resize(_, given) {
    this.things[given.of].resize(given.rows, given.cols);
  },
  session_wait(_, given, options) {
    return coded(this.things[given.of].wait(options));
  },
  session_free(_, given) {
    this.things[given.of].close();
  },
  exec_create: async (engine, given) => made((await of(engine, given).exec(given.body)).id),
  async exec_start(engine, given, options) {
    const exec = engine.containers.exec(given.id);
    if (!given.attach) return exec.start(options);
    this.things[given.as] = await exec.startAttached(options);
    return null;
  },
  exec_wait: (engine, given, options) => coded(engine.containers.exec(given.id).wait(options)),
  exec_inspect: (engine, given) => engine.containers.exec(given.id).inspect(),
};

const line = ({channel, text}) => ({channel, text});

const streams = {
  async container_logs(engine, given, options) {
    const all = [];
    for await (const one of await of(engine, given).logs({...given.query, ...options})) all.push(line(one));
    return all;
  },
  async logs_open(engine, given, options) {
    this.things[given.as] = await of(engine, given).logs({...given.query, ...options});
  },
  async logs_next(_, given, options) {
    return line(await this.things[given.of].next(options));
  },
  stream_fd(_, given) {
    return this.things[given.of].fd >= 0;
  },
  stream_lost(_, given) {
    return this.things[given.of].lost;
  },
  stream_free(_, given) {
    this.things[given.of].close();
  },
  async events_open(engine, given) {
    this.things[given.as] = await engine.events(given.query);
  },
  events_fd(_, given) {
    return this.things[given.of].fd >= 0;
  },
  async events_next(_, given, options) {
    const events = this.things[given.of];
    const event = given.timeout_ms === undefined ? await events.next(options) : await events.poll();
    if (event === undefined) return {done: true};
    return event === null ? {again: true} : event;
  },
  async events_until(_, given, options) {
    const actions = [];
    for await (const event of this.things[given.of].all(options)) {
      actions.push(event.Action);
      if (event.Action === given.action) return actions;
    }
    throw new Wrong(`the events end at ${actions}`);
  },
  events_free(_, given) {
    this.things[given.of].close();
  },
};

const images = {
  image_list: (engine, given) => engine.images.list(given.query),
  image_inspect: (engine, given) => engine.images.inspect(given.ref),
  image_history: (engine, given) => engine.images.history(given.ref),
  image_tag: (engine, given) => engine.images.tag(given.ref, given.new_ref),
  image_remove: (engine, given, options) => engine.images.remove(given.ref, {force: given.force, noPrune: given.no_prune, ...options}),
  image_prune: (engine, given, options) => engine.images.prune({filters: given.filters, ...options}),
  build_prune: (engine, given, options) => engine.images.pruneCaches({filters: given.filters, ...options}),
  async image_save(engine, given, options) {
    const body = await engine.images.save(given.names, {layout: given.layout, ...options});
    await pipeline(body, fs.createWriteStream(given.file));
    return {bytes: fs.statSync(given.file).size};
  },
  image_pull(engine, given, options) {
    return made(engine.images.pull(given.ref, {platform: given.platform, ...progress(this, given, options)}));
  },
  image_push(engine, given, options) {
    return engine.images.push(given.ref, progress(this, given, options));
  },
  image_search(engine, given, options) {
    const {term, ...more} = given.query;
    return engine.images.search(term, {...more, ...options});
  },
  registry_inspect: (engine, given, options) => engine.images.inspectRemote(given.ref, options),
  registry_auth: (engine, given, options) => engine.images.checkLogin(given.auth, options),
  image_load(engine, given, options) {
    return engine.images.load(source(given), progress(this, given, options));
  },
  image_import(engine, given, options) {
    return made(engine.images.import(source(given), {...given.query, ...progress(this, given, options)}));
  },
  image_build(engine, given, options) {
    return made(engine.images.build(source(given), {query: given.query, ...progress(this, given, options)}));
  },
  image_build_dir(engine, given, options) {
    const dir = fs.mkdtempSync(path.join(this.dir, 'context-'));
    for (const [name, content] of Object.entries(given.files)) fs.writeFileSync(path.join(dir, name), content);
    return made(engine.images.buildDir(dir, {query: given.query, ...progress(this, given, options)}));
  },
};

const networks = {
  volume_create: (engine, given, options) => engine.volumes.create(given.body, options),
  volume_list: (engine, given) => engine.volumes.list(given.query),
  volume_inspect: (engine, given) => engine.volumes.inspect(given.name),
  volume_remove: (engine, given, options) => engine.volumes.remove(given.name, options),
  volume_prune: (engine, given, options) => engine.volumes.prune({filters: given.filters, ...options}),
  network_create: (engine, given, options) => made(engine.networks.create(given.body, options)),
  network_list: (engine, given) => engine.networks.list(given.query),
  network_inspect: (engine, given) => engine.networks.inspect(given.id),
  network_connect: (engine, given, options) => engine.networks.connect(given.id, given.body.Container, {endpoint: given.body.EndpointConfig, ...options}),
  network_disconnect: (engine, given, options) => engine.networks.disconnect(given.id, given.body.Container, options),
  network_remove: (engine, given, options) => engine.networks.remove(given.id, options),
  network_prune: (engine, given, options) => engine.networks.prune({filters: given.filters, ...options}),
  network_repair: (engine, _, options) => engine.networks.repair(options),
  network_release: (engine, _, options) => engine.networks.release(options),
};

const plugins = {
  plugin_list: (engine, given) => engine.plugins.list(given.query),
  plugin_inspect: (engine, given) => engine.plugins.inspect(given.name),
  plugin_privileges: (engine, given, options) => engine.plugins.privileges(given.remote, {auth: given.auth, ...options}),
  plugin_pull(engine, given, options) {
    return made(engine.plugins.pull(given.body, progress(this, given, options)));
  },
  plugin_upgrade(engine, given, options) {
    return none(engine.plugins.upgrade(given.name, given.body, progress(this, given, options)));
  },
  plugin_enable: (engine, given, options) => engine.plugins.enable(given.name, {waitSeconds: given.seconds, ...options}),
  plugin_disable: (engine, given, options) => engine.plugins.disable(given.name, {force: given.force, ...options}),
  plugin_remove: (engine, given, options) => engine.plugins.remove(given.name, {force: given.force, ...options}),
  plugin_set: (engine, given) => engine.plugins.set(given.name, given.changes),
};

const overHttp = {
  async http_request(engine, given, options) {
    const body = given.body === undefined ? undefined : JSON.stringify(given.body);
    const answer = await engine.request(given.method, given.target, {headers: given.headers, body, ...options});
    return {status: answer.status, body: plain(await textOf(answer.body))};
  },
  http_connect: (engine, given) => requested({agent: engine.agent(), path: given.target, host: 'coracle'}),
  http_get_unix: (_, given) => requested({socketPath: given.path, path: given.target}),
  async http_serve(engine, given) {
    const {Addresses, InsecureTcp, HostNames} = given.options ?? {};
    this.things[given.as] = await engine.serve({addresses: Addresses, insecureTcp: InsecureTcp, hostNames: HostNames});
  },
  http_server_addresses(_, given) {
    return this.things[given.of].addresses;
  },
  http_server_shutdown(_, given, options) {
    return this.things[given.of].shutdown({graceMs: given.grace_ms, ...options});
  },
  http_server_free(_, given) {
    return this.things[given.of].close();
  },
};

const steps = {...own, ...library, ...root, ...container, ...session, ...streams, ...images, ...networks, ...plugins, ...overHttp};

module.exports = {Caller, Wrong, steps};
