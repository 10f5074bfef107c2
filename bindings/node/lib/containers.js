// Containers and further processes in them.
'use strict';

const {document, maybe, members, number, numbers, sync, text} = require('./native.js');
const {ARCHIVE, run, steps, wait, work} = require('./call.js');
const {TypeMistake} = require('./errors.js');
const {Session, io} = require('./session.js');
const {Body, Logs, samples} = require('./streams.js');

const parsed = ([, answer]) => JSON.parse(answer);
const changed = ([status]) => status !== numbers.UNCHANGED;
const optional = (filters) => (filters === undefined || Object.keys(filters).length === 0 ? null : document(filters, 'the filters'));
const flags = (options, names) => Object.entries(names).reduce((all, [name, flag]) => (options[name] ? all | flag : all), 0);
const MOST = Number.MAX_SAFE_INTEGER;

/** Options of a call that are no limits of it, as a document. */
function query(options, names) {
  if (typeof options !== 'object' || options === null) throw new TypeMistake('the options are not an object');
  return JSON.stringify(members(options, names));
}

/** A container by its id or name; it outlives this object and the program. */
class Container {
  #engine;

  constructor(engine, id, warnings = []) {
    this.#engine = engine;
    this.id = text(id, 'id');
    this.warnings = warnings;
  }

  #run(name, values, options) {
    return run(name, [this.#engine.handle.value, this.id, ...values], options);
  }

  /** Describes the container in full; `size`: with its sizes. */
  async inspect({size = false} = {}) {
    return parsed(await this.#run('containerInspect', [size ? 1 : 0]));
  }

  /** Describes the container's launch in words, with the kernel's answer to the step at which the last start failed. */
  async explain() {
    return parsed(await this.#run('containerExplain', []));
  }

  /** Starts the container, detached; false: it ran already. */
  async start(options = {}) {
    return changed(await this.#run('containerStart', [null], options));
  }

  /** Starts the container with its streams in hand from the first byte on. Of a container that runs already it is attach. */
  async startAttached(options = {}) {
    const [, session] = await this.#run('containerStart', [io(options)], options);
    return session ? new Session(session) : this.attach(options);
  }

  /** Attaches to the container's streams: those that are true of `stdin`, `stdout`, `stderr`, or all. `wait`: before it runs. */
  async attach(options = {}) {
    const which = query(options, ['stdin', 'stdout', 'stderr', 'wait']);
    const [, session] = await this.#run('containerAttach', [io(options), which], options);
    return new Session(session);
  }

  /** Stops the container: `signalName` and, after `graceMs` (below 0: never), SIGKILL. False: it did not run. */
  async stop(options = {}) {
    if (simple(options)) return changed(await this.#run('containerStop', [number(options.graceMs, 'graceMs', -MOST, MOST)], options));
    return changed(await this.#run('containerStopWith', [how(options)], options));
  }

  /** Stops the container if it runs, as `stop` does, and starts it. */
  async restart(options = {}) {
    if (simple(options)) await this.#run('containerRestart', [number(options.graceMs, 'graceMs', -MOST, MOST)], options);
    else await this.#run('containerRestartWith', [how(options)], options);
  }

  /** Sends a signal, a name or a number as text; none: SIGKILL, whose effect the call waits for. */
  async kill(signalName, options = {}) {
    await this.#run('containerKill', [maybe(signalName, 'signalName')], options);
  }

  /** Freezes the container's processes. */
  async pause(options = {}) {
    await this.#run('containerPause', [], options);
  }

  /** Thaws the container's processes. */
  async unpause(options = {}) {
    await this.#run('containerUnpause', [], options);
  }

  /**
   * Waits for a condition ('not-running', 'next-exit', 'removed'): the exit code. No end after this call is missed, so begin a wait for
   * 'next-exit', start the container, and then await the wait.
   */
  async wait({condition, ...options} = {}) {
    const [, code] = await wait('containerWait', [this.#engine.handle.value, this.id, maybe(condition, 'condition')], options);
    return code;
  }

  /** A descriptor of the container's first process, which is readable when the process ended; the caller closes it (fs.closeSync). */
  async pidfd() {
    return (await this.#run('containerPidfd', []))[1];
  }

  /** Removes the container. `force` kills it first, `volumes` removes its anonymous volumes, `link`: the id is a link. */
  async remove(options = {}) {
    const names = {force: numbers.REMOVE_FORCE, volumes: numbers.REMOVE_VOLUMES, link: numbers.REMOVE_LINK};
    await this.#run('containerRemove', [flags(options, names)], options);
  }

  /** Gives the container another name. */
  async rename(name) {
    await this.#run('containerRename', [text(name, 'name')]);
  }

  /** Lists the container's processes, as ps with these arguments does. */
  async top(psArgs) {
    return parsed(await this.#run('containerTop', [maybe(psArgs, 'psArgs')]));
  }

  /** Changes limits and restart policy: the warnings. */
  async update(body, options = {}) {
    return parsed(await this.#run('containerUpdate', [document(body, 'body')], options)).Warnings ?? [];
  }

  /** Describes the file at a path. */
  async statPath(path, options = {}) {
    return parsed(await this.#run('containerStatPath', [text(path, 'path')], options));
  }

  /** Copies files out of the container: {body, stat}, a tar as a Readable and the file's description. */
  async getArchive(path, options = {}) {
    const [, body, stat] = await this.#run('containerGetArchive', [text(path, 'path')], options);
    return {body: new Body(body), stat: JSON.parse(stat)};
  }

  /** Extracts a tar, plain or compressed, into a directory of the container. */
  putArchive(path, archive, options = {}) {
    const which = query(options, ['noOverwriteDirNonDir', 'copyUIDGID']);
    const values = [this.#engine.handle.value, this.id, text(path, 'path'), which, ARCHIVE];
    return work('containerPutArchive', values, archive, options, () => undefined);
  }

  /** The container's file system as a tar, a Readable. */
  async export(options = {}) {
    return new Body((await this.#run('containerExport', [], options))[1]);
  }

  /** Lists the files that the container changed. */
  async changes(options = {}) {
    return parsed(await this.#run('containerChanges', [], options));
  }

  /** Makes an image of the container: the image's id. */
  async commit({config, ...options} = {}) {
    const which = query(options, ['repo', 'tag', 'comment', 'author', 'pause', 'changes']);
    return (await this.#run('containerCommit', [which, document(config, 'config')], options))[1];
  }

  /** The lines of the container's log. */
  async logs(options = {}) {
    const which = query(options, ['stdout', 'stderr', 'since', 'tail', 'follow']);
    return new Logs((await this.#run('containerLogs', [which], options))[1]);
  }

  /** A sample of the resources that the container uses now. */
  async stats(options = {}) {
    for await (const sample of this.#samples({stream: false, 'one-shot': true}, options)) return sample;
    return undefined;
  }

  /** A sample at once and then one a second, until the container is removed. */
  samples(options = {}) {
    return this.#samples({stream: true}, options);
  }

  async *#samples(which, options) {
    const [, stream] = await this.#run('containerStats', [JSON.stringify(which)], options);
    yield* samples(stream, options);
  }

  /** Prepares a further process: an Exec. */
  async exec(body) {
    return new Exec(this.#engine, (await this.#run('execCreate', [document(body, 'body')]))[1]);
  }

  /** Runs a command in the container to its end: {code, stdout, stderr}. */
  async run(command, options = {}) {
    const step = steps(options);
    const exec = await this.exec({Cmd: command, AttachStdout: true, AttachStderr: true});
    const session = await exec.startAttached(step());
    try {
      const outputs = await session.communicate(undefined, step());
      return {code: await session.wait(step()), ...outputs};
    } finally {
      session.close();
    }
  }
}

/** Whether a stop has a time and no signal. */
const simple = (options) => options.graceMs !== undefined && options.signalName === undefined;

/** How a container is stopped, as a document. */
function how({signalName, graceMs}) {
  const made = {};
  if (signalName !== undefined) made.signal = text(signalName, 'signalName');
  if (graceMs !== undefined) made.grace_ms = number(graceMs, 'graceMs', -MOST, MOST);
  return JSON.stringify(made);
}

/** A further process of a container, by its id. */
class Exec {
  #engine;

  constructor(engine, id) {
    this.#engine = engine;
    this.id = text(id, 'id');
  }

  #values(...more) {
    return [this.#engine.handle.value, this.id, ...more];
  }

  /** Starts the process, detached. */
  async start(options = {}) {
    await run('execStart', this.#values(null), options);
  }

  /** Starts the process with its streams in hand. */
  async startAttached(options = {}) {
    return new Session((await run('execStart', this.#values(io(options)), options))[1]);
  }

  /** Waits for the process's end: its exit code. */
  async wait(options = {}) {
    return (await wait('execWait', this.#values(), options))[1];
  }

  /** Describes the process in full. */
  async inspect() {
    return parsed(await run('execInspect', this.#values()));
  }
}

/** The containers of an engine. */
class Containers {
  #engine;

  constructor(engine) {
    this.#engine = engine;
  }

  /** Creates a container of a body of POST /containers/create, with `name`. */
  async create(body, options = {}) {
    const values = [this.#engine.handle.value, maybe(options.name, 'name'), document(body, 'body')];
    const [, id, answer] = await run('containerCreate', values, options);
    return new Container(this.#engine, id, JSON.parse(answer).Warnings ?? []);
  }

  /** The container of an id, a name, or the beginning of an id; it asks nothing. */
  get(id) {
    return new Container(this.#engine, id);
  }

  /** The further process of an id; it asks nothing. */
  exec(id) {
    return new Exec(this.#engine, id);
  }

  /** Lists containers, newest first. */
  async list(options = {}) {
    const which = query(options, ['all', 'limit', 'size', 'since', 'before', 'filters']);
    return parsed(await run('containerList', [this.#engine.handle.value, which], {}));
  }

  /** Removes the containers that do not run, or those of them that the filters choose. */
  async prune({filters, ...options} = {}) {
    return parsed(await run('containerPrune', [this.#engine.handle.value, optional(filters)], options));
  }
}

module.exports = {Container, Containers, Exec, flags, optional, parsed, query};
