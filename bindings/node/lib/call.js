// Calls that last: promises, signals, deadlines, progress, archives that go in.
'use strict';

const {setMaxListeners} = require('node:events');
const {closeSync, constants, openSync} = require('node:fs');
const {addon, functions, number} = require('./native.js');
const {aborted, failed, made, misuse, TypeMistake} = require('./errors.js');

const LONGEST = 2 ** 31 - 1;

/** The signal and the deadline of a call, checked. */
function limits(options) {
  const {signal, timeout} = options;
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeMistake('signal is not an AbortSignal');
  return {signal, timeout: timeout === undefined ? undefined : number(timeout, 'timeout', 0, LONGEST)};
}

/** Has a signal call a function. Many calls may share one signal, which is not the leak that node warns of. */
function listen(signal, cancel) {
  setMaxListeners(0, signal);
  signal.addEventListener('abort', cancel);
}

/** Begins a call that `begin(done)` names, which the signal cancels: a promise of its answers. */
function ending(options, begin, refused = () => undefined) {
  const {signal} = options;
  if (signal?.aborted) return Promise.reject(aborted(signal));
  return new Promise((resolve, reject) => {
    let name;
    const cancel = () => addon.cancel(name);
    name = begin((failure, answers) => {
      signal?.removeEventListener('abort', cancel);
      if (!failure) return resolve(answers);
      const own = refused();
      if (own) return reject(own.error);
      if (signal?.aborted && ['CANCELLED', 'CALLBACK'].includes(failure.code)) return reject(aborted(signal));
      return reject(failed(failure));
    });
    if (signal) listen(signal, cancel);
  });
}

/** Makes a call on a thread. */
function run(name, values, options = {}) {
  const {signal, timeout} = limits(options);
  return ending({signal}, (done) => addon.run(functions[name], values, timeout ?? -1, null, done));
}

/** Makes a call that waits for the end of a process: it takes no thread. */
function wait(name, values, options = {}) {
  const {signal, timeout} = limits(options);
  return ending({signal}, (done) => addon.wait(functions[name], values, timeout ?? -1, done));
}

/** The error of a deadline. */
const late = (timeout) => made({code: 'TIMEOUT', message: `the deadline of ${timeout} ms passed`});

/** One deadline for the steps of a call: a function that gives the options of the next step, with the time that is left. */
function steps(options) {
  const {timeout} = limits(options);
  if (timeout === undefined) return () => options;
  const end = performance.now() + timeout;
  return () => ({...options, timeout: Math.max(0, Math.ceil(end - performance.now()))});
}

/** Waits until a descriptor is readable: it takes no thread. `ends` has, while it waits, a function that ends the wait by an error. */
async function readable(fd, options = {}, ends = new Set()) {
  const {signal, timeout} = limits(options);
  let name;
  let refused;
  const end = (error) => {
    refused ??= {error};
    addon.cancel(name);
  };
  // The wait has no operation of the library, which would have the deadline.
  const timer = timeout === undefined ? undefined : setTimeout(() => end(late(timeout)), timeout);
  ends.add(end);
  try {
    await ending({signal}, (done) => {
      name = addon.readable(fd, done);
      return name;
    }, () => refused);
  } finally {
    clearTimeout(timer);
    ends.delete(end);
  }
}

/** The chunks of an archive, for a call that asks for bytes. */
class Chunks {
  #iterator;
  #stream;
  #rest = Buffer.alloc(0);

  constructor(source) {
    this.#stream = typeof source.destroy === 'function' ? source : null;
    if (source[Symbol.asyncIterator]) this.#iterator = source[Symbol.asyncIterator]();
    else if (source instanceof Uint8Array) this.#iterator = [source][Symbol.iterator]();
    else if (typeof source !== 'string' && source[Symbol.iterator]) this.#iterator = source[Symbol.iterator]();
    else throw new TypeMistake('the archive is no Buffer, no stream and no iterable of Buffers');
  }

  /** The next bytes, at most `room`; 0 at the end. */
  async next(room) {
    while (this.#rest.length === 0) {
      const {done, value} = await this.#iterator.next();
      if (done) return 0;
      if (!(value instanceof Uint8Array)) throw new TypeMistake('a piece of the archive is no Buffer');
      this.#rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    }
    const piece = this.#rest.subarray(0, room);
    this.#rest = this.#rest.subarray(room);
    return piece;
  }

  /** Lets go of the source, which nobody reads any more. A piece that never comes is not waited for. */
  async close() {
    if (this.#stream) this.#stream.destroy();
    else Promise.resolve(this.#iterator.return?.()).catch(() => {});
  }
}

/** A directory in the place of an archive: it is open while the call lasts. */
class Directory {
  constructor(path) {
    this.path = path;
  }
}

/** What the library itself reads. */
function opened(path, flags) {
  const fd = openSync(path, flags);
  return {value: fd, close: async () => closeSync(fd)};
}

/** The argument of an archive: [what the addon gets, the chunks, the end of it]. */
function source(archive) {
  if (archive === undefined || archive === null) return {value: null, close: async () => {}};
  if (archive instanceof Directory) return opened(archive.path, constants.O_RDONLY | constants.O_DIRECTORY);
  if (typeof archive === 'string' || archive instanceof URL) return opened(archive, constants.O_RDONLY);
  if (typeof archive !== 'object') throw new TypeMistake('the archive is no path, no Buffer, no stream and no iterable of Buffers');
  const chunks = new Chunks(archive);
  return {value: true, chunks, close: () => chunks.close()};
}

/** How many records of progress wait for the program before the call waits, too. */
const AHEAD = 64;

/** A call with progress: a promise of the result, and an async iterator of the records. */
class Work {
  #promise;
  #listeners = new Set();
  #over = false;
  #refused;

  constructor(name, values, archive, options, result) {
    this.#promise = this.#begin(name, values, archive, options).then(result).finally(() => {
      this.#over = true;
      for (const listener of this.#listeners) listener.end();
    });
    // The error is for those who wait for the promise or iterate; a call that nobody waits for is reported as any promise is.
  }

  async #begin(name, values, archive, options) {
    const {signal, timeout} = limits(options);
    const {onProgress} = options;
    if (onProgress !== undefined && typeof onProgress !== 'function') throw new TypeMistake('onProgress is not a function');
    if (signal?.aborted) throw aborted(signal);
    const input = source(archive);
    let timer;
    try {
      const all = values.map((value) => (value === ARCHIVE ? input.value : value));
      return await ending({signal}, (done) => {
        const call = addon.run(functions[name], all, timeout ?? -1, (value) => this.#asked(call, value, input.chunks, onProgress), done);
        if (timeout !== undefined) {
          // A call that waits for JavaScript does not look at its deadline.
          timer = setTimeout(() => {
            this.#refused ??= {error: late(timeout)};
            addon.cancel(call);
          }, timeout);
        }
        return call;
      }, () => this.#refused);
    } finally {
      clearTimeout(timer);
      await input.close();
    }
  }

  #asked(call, value, chunks, onProgress) {
    const answer = typeof value === 'number' ? chunks.next(value) : this.#record(JSON.parse(value), onProgress);
    answer.then((made) => addon.answer(call, made), (error) => {
      this.#refused ??= {error};
      addon.answer(call, -1);
    });
  }

  async #record(record, onProgress) {
    await onProgress?.(record);
    await Promise.all([...this.#listeners].map((listener) => listener.add(record)));
    return 0;
  }

  then(resolved, rejected) {
    return this.#promise.then(resolved, rejected);
  }

  catch(rejected) {
    return this.#promise.catch(rejected);
  }

  finally(ended) {
    return this.#promise.finally(ended);
  }

  get [Symbol.toStringTag]() {
    return 'Work';
  }

  /** The records from now on; the error of the call is the loop's. A loop that ends early leaves the call alone. */
  async *[Symbol.asyncIterator]() {
    if (this.#over) {
      await this.#promise;
      return;
    }
    const listener = new Listener();
    this.#listeners.add(listener);
    // The loop gets the error after the last record; until then nobody else may wait for it.
    this.#promise.catch(() => {});
    try {
      yield* listener.records();
    } finally {
      this.#listeners.delete(listener);
      listener.leave();
    }
    await this.#promise;
  }
}

/** The records for one loop. */
class Listener {
  #records = [];
  #ended = false;
  #wake = () => {};
  #taken = () => {};

  /** Resolves when the loop can take more. */
  async add(record) {
    this.#records.push(record);
    this.#wake();
    if (this.#records.length >= AHEAD && !this.#ended) await new Promise((resolve) => { this.#taken = resolve; });
  }

  end() {
    this.#ended = true;
    this.#wake();
  }

  /** The loop was left: nobody is to wait for it. */
  leave() {
    this.#ended = true;
    this.#taken();
  }

  async *records() {
    for (;;) {
      while (this.#records.length > 0) {
        const record = this.#records.shift();
        if (this.#records.length < AHEAD) this.#taken();
        yield record;
      }
      if (this.#ended) return;
      await new Promise((resolve) => { this.#wake = resolve; });
    }
  }
}

/** The place of an archive among the values of a call. */
const ARCHIVE = Symbol('archive');

/** Makes a call with progress, and with an archive where ARCHIVE stands among its values. */
const work = (name, values, archive, options, result) => new Work(name, values, archive, options ?? {}, result);

/** A handle of the library. Use of a closed one is an error. */
class Handle {
  #external;
  #what;
  #waits = new Set();

  constructor(external, what) {
    this.#external = external;
    this.#what = what;
  }

  get open() {
    return this.#external !== null;
  }

  /** The handle for a call. */
  get value() {
    if (this.#external === null) throw misuse('MISUSE', `the ${this.#what} is closed`);
    return this.#external;
  }

  /** Waits until a descriptor of the handle is readable. The end of the handle ends the wait. */
  async readable(fd, options) {
    await readable(fd, options, this.#waits);
  }

  /** Ends the handle, and the waits for it; again: nothing. */
  close() {
    if (this.#external === null) return false;
    addon.release(this.#external);
    this.#external = null;
    for (const end of this.#waits) end(misuse('MISUSE', `the ${this.#what} was closed`));
    return true;
  }
}

/** The symbols of `using`, where this node does not have them. */
const dispose = Symbol.dispose ?? Symbol.for('nodejs.dispose');
const asyncDispose = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose');

module.exports = {ARCHIVE, Directory, Handle, Work, asyncDispose, dispose, late, limits, readable, run, steps, wait, work};
