// Bytes and records that come out of the engine: archives, logs, samples, events.
'use strict';

const {Readable} = require('node:stream');
const {numbers, sync} = require('./native.js');
const {Handle, dispose, run, steps} = require('./call.js');
const {misuse} = require('./errors.js');
const {NAMES} = require('./session.js');

const ROOM = 256 * 1024;

/** A descriptor of a handle; the call that gave it checks the handle. */
function descriptor(name, handle) {
  const [fd] = sync(name, handle.value);
  if (fd < 0) throw misuse(sync('statusName', fd)[1], `${name}: the handle is not open`);
  return fd;
}

/** Bytes out of the engine, as a Readable. An operation that failed is the stream's error. */
class Body extends Readable {
  #handle;

  constructor(external) {
    super({highWaterMark: ROOM});
    this.#handle = new Handle(external, 'stream');
  }

  _read() {
    this.#next().then((piece) => this.push(piece), (error) => this.destroy(error));
  }

  async #next() {
    await this.#handle.readable(descriptor('streamFd', this.#handle));
    if (!this.#handle.open) return null;
    const [count, data] = await run('streamRead', [this.#handle.value, ROOM]);
    return count === 0 ? null : data;
  }

  _destroy(error, done) {
    this.#handle.close();
    done(error);
  }
}

/** The records of a stream, one after another. */
class Records {
  #handle;

  constructor(external) {
    this.#handle = new Handle(external, 'stream');
  }

  get handle() {
    return this.#handle;
  }

  /** The next record, [channel, time, bytes]; undefined: the end. Waiting for it takes no thread. */
  async next(options = {}) {
    const step = steps(options);
    await this.#handle.readable(descriptor('streamFd', this.#handle), step());
    const [status, record] = await run('streamNext', [this.#handle.value], step());
    return status === numbers.DONE ? undefined : record;
  }
}

/** The lines of a log. */
class Logs {
  #records;

  constructor(external) {
    this.#records = new Records(external);
  }

  /** The next line; undefined: the end. */
  async next(options = {}) {
    const record = await this.#records.next(options);
    return record && new LogLine(...record);
  }

  /** The lines to the end; a loop that ends early does not close the log. */
  async *lines(options = {}) {
    for (let line; (line = await this.next(options)) !== undefined;) yield line;
  }

  async *[Symbol.asyncIterator]() {
    try {
      yield* this.lines();
    } finally {
      this.close();
    }
  }

  /** How many lines this reader missed: the log's bounds deleted them before they were read. */
  get lost() {
    const [lost] = sync('streamLost', this.#records.handle.value);
    if (lost < 0) throw misuse(sync('statusName', lost)[1], 'the log is not open');
    return lost;
  }

  /** A descriptor that is readable while a line may be waiting, valid until close. */
  get fd() {
    return descriptor('streamFd', this.#records.handle);
  }

  close() {
    this.#records.handle.close();
  }

  [dispose]() {
    this.close();
  }
}

/** A line of a log, with its newline. */
class LogLine {
  constructor(channel, nanoseconds, data) {
    this.channel = NAMES[channel];
    /** Nanoseconds since 1970, a BigInt. */
    this.nanoseconds = nanoseconds;
    this.data = data;
  }

  get time() {
    return new Date(Number(this.nanoseconds / 1000000n));
  }

  /** The line without its newline. */
  get text() {
    return this.data.toString().replace(/\n+$/, '');
  }
}

/** Samples of a container's resources. */
async function* samples(external, options) {
  const records = new Records(external);
  try {
    for (let record; (record = await records.next(options)) !== undefined;) yield JSON.parse(record[2]);
  } finally {
    records.handle.close();
  }
}

/** The events of a root, of any program. Waiting for one takes no thread. */
class Events {
  #handle;

  constructor(external) {
    this.#handle = new Handle(external, 'events');
  }

  /** The next event that is there already; null: there is none yet; undefined: `until` is reached. */
  async poll() {
    const [status, event] = await run('eventsNext', [this.#handle.value, 0]);
    if (status === numbers.DONE) return undefined;
    return status === numbers.AGAIN ? null : JSON.parse(event);
  }

  /** The next event; undefined: `until` is reached. */
  async next(options = {}) {
    for (const step = steps(options);;) {
      await this.#handle.readable(descriptor('eventsFd', this.#handle), step());
      const event = await this.poll();
      if (event !== null) return event;
    }
  }

  /** The events; a loop that ends early does not close them. */
  async *all(options = {}) {
    for (let event; (event = await this.next(options)) !== undefined;) yield event;
  }

  async *[Symbol.asyncIterator]() {
    try {
      yield* this.all();
    } finally {
      this.close();
    }
  }

  /** A descriptor that is readable while an event may be waiting, valid until close. */
  get fd() {
    return descriptor('eventsFd', this.#handle);
  }

  close() {
    this.#handle.close();
  }

  [dispose]() {
    this.close();
  }
}

module.exports = {Body, Events, LogLine, Logs, samples};
