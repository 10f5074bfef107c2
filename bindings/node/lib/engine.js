// An engine: an opened root, with everything of it.
'use strict';

const {addon, document, maybe, numbers, sync, text} = require('./native.js');
const {Handle, asyncDispose, dispose, run, work} = require('./call.js');
const {failed, misuse} = require('./errors.js');
const {Containers, flags, parsed, query} = require('./containers.js');
const {Images, Plugins} = require('./images.js');
const {Networks, Volumes} = require('./networks.js');
const {Events} = require('./streams.js');
const http = require('./http.js');

const OPEN = {existing: numbers.OPEN_EXISTING, lenient: numbers.OPEN_LENIENT, ephemeral: numbers.OPEN_EPHEMERAL};

/** The options of an open, as the addon takes them. */
const opening = (options) => [maybe(options.runDir, 'runDir'), document(options.config, 'config'), flags(options, OPEN)];

/** Opens a root, a directory, and makes it if it is not there. */
async function open(root, options = {}) {
  const [, handle] = await run('open', [text(root, 'root'), opening(options)]);
  return new Engine(handle);
}

/** Describes everything that an engine needs of the host; it opens nothing. */
async function hostReport(root, options = {}) {
  return parsed(await run('hostReport', [text(root, 'root'), opening(options)]));
}

/** An opened root. Closing it leaves its containers running. */
class Engine {
  constructor(handle) {
    Object.defineProperty(this, 'handle', {value: new Handle(handle, 'engine')});
    this.containers = new Containers(this);
    this.images = new Images(this);
    this.volumes = new Volumes(this);
    this.networks = new Networks(this);
    this.plugins = new Plugins(this);
  }

  /** Ends the engine's handle. Containers run on; sessions, streams and events that came from it stay valid. */
  close() {
    this.handle.close();
  }

  [dispose]() {
    this.close();
  }

  async [asyncDispose]() {
    this.close();
  }

  /** Another handle of the same engine, which stays open when this one is closed. */
  again() {
    const [, handle] = sync('ref', this.handle.value);
    if (!handle) throw misuse('MISUSE', 'the engine is closed');
    return new Engine(handle);
  }

  /** Describes the engine and the host. */
  async info(options = {}) {
    return parsed(await run('engineInfo', [this.handle.value], options));
  }

  /** The versions of the library, the API and the kernel. */
  async version() {
    return parsed(await run('engineVersion', [this.handle.value]));
  }

  /** Counts the bytes that images, containers and volumes take; `type`: a list of kinds. */
  async diskUsage(options = {}) {
    return parsed(await run('engineDiskUsage', [this.handle.value, query(options, ['type'])], options));
  }

  /** Counts the root's objects, and this engine's work since it was opened. */
  async metrics() {
    return parsed(await run('engineMetrics', [this.handle.value]));
  }

  /** Replaces the engine's labels, and reports to all followers of events that settings were read again. */
  async reload(labels, settings) {
    await run('engineReload', [this.handle.value, document(labels, 'labels'), document(settings, 'settings')]);
  }

  /** Holds a lease: containers with the label "coracle.lease" of that name end when it is closed, or the program ends. */
  async lease(name) {
    return new Lease((await run('leaseHold', [this.handle.value, text(name, 'name')]))[1]);
  }

  /** Reads every layer and image of the store; `repair` puts damage right. */
  verify(options = {}) {
    return work('rootVerify', [this.handle.value, query(options, ['repair', 'auths'])], undefined, options, parsed);
  }

  /** Lists files that removals could not remove. */
  async leftovers() {
    return parsed(await run('rootLeftovers', [this.handle.value]));
  }

  /** Tries again to remove them: those that stay. */
  async sweep(options = {}) {
    return parsed(await run('rootSweep', [this.handle.value], options));
  }

  /** Copies the whole root into a directory that is absent or empty. */
  copyRoot(directory, options = {}) {
    return work('rootCopy', [this.handle.value, text(directory, 'directory'), query(options, ['pause'])], undefined, options, parsed);
  }

  /** Imports images, volumes and stopped containers of a dockerd. */
  importDocker(options = {}) {
    return work('rootImportDocker', [this.handle.value, query(options, ['directory', 'socket', 'names'])], undefined, options, parsed);
  }

  /** Follows the events of the root: no event after this call is missed silently. */
  async events(options = {}) {
    const which = query(options, ['since', 'until', 'after', 'filters']);
    return new Events((await run('eventsOpen', [this.handle.value, which]))[1]);
  }

  /** Answers a request of the HTTP API in process: {status, body}, a Readable. */
  request(method, target, options = {}) {
    return http.request(this.handle.value, method, target, options);
  }

  /** Opens a private connection that speaks the HTTP API, a net.Socket. */
  connect() {
    return http.connect(this.handle.value);
  }

  /** An http.Agent whose connections are private ones of this engine: the host of a URL is passed over. */
  agent(options = {}) {
    return new http.EngineAgent(this, options);
  }

  /** Serves the HTTP API to others, on a thread of the library: a Server. */
  async serve(options = {}) {
    return http.serve(this.handle.value, options);
  }
}

/** A lease that is held. */
class Lease {
  #fd;

  constructor(fd) {
    this.#fd = fd;
  }

  /** Ends the lease, and with it its containers. */
  close() {
    if (this.#fd !== null) addon.closeFd(this.#fd);
    this.#fd = null;
  }

  [dispose]() {
    this.close();
  }
}

/** The library's log: `sink(level, target, message)` gets messages of the level and graver; null: none. */
function setLog(level, sink) {
  const grade = {error: numbers.LOG_ERROR, warn: numbers.LOG_WARN, info: numbers.LOG_INFO, debug: numbers.LOG_DEBUG}[level];
  if (grade === undefined) throw misuse('INVALID', `${level} is none of error, warn, info, debug`);
  if (sink !== null && typeof sink !== 'function') throw misuse('INVALID', 'the sink is not a function');
  const names = [, 'error', 'warn', 'info', 'debug'];
  const {failure} = addon.setLog(grade, sink && ((found, target, message) => sink(names[found], target, message)));
  if (failure) throw failed(failure);
}

module.exports = {Engine, Lease, hostReport, open, setLog};
