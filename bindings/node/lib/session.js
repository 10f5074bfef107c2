// Sessions: attached processes with their streams.
'use strict';

const {Socket} = require('node:net');
const {Readable, Writable} = require('node:stream');
const {pipeline} = require('node:stream/promises');
const {number, numbers, sync} = require('./native.js');
const {Handle, dispose, late, limits, run, wait} = require('./call.js');
const {TypeMistake, aborted} = require('./errors.js');

const CHANNELS = {stdin: numbers.STDIN, stdout: numbers.STDOUT, stderr: numbers.STDERR};
const NAMES = ['stdin', 'stdout', 'stderr'];
const ROOM = 64 * 1024;

/** The numbers of a coracle_io: descriptors of the caller's own, and the size of a terminal. */
function io(options) {
  const fd = (name) => (options[name] === undefined ? -1 : number(options[name], name, 0, 2 ** 31 - 1));
  const size = (name) => (options[name] === undefined ? 0 : number(options[name], name, 0, 65535));
  return [fd('stdinFd'), fd('stdoutFd'), fd('stderrFd'), size('rows'), size('cols'), options.direct ? numbers.IO_DIRECT : 0];
}

/** The process's stdin as a stream. */
function input(session, handle, fd) {
  const socket = new Socket({fd, readable: false, writable: true});
  // Each write has its own answer.
  socket.on('error', () => {});
  return new Writable({
    write(chunk, encoding, done) {
      socket.write(chunk, encoding, done);
    },
    final(done) {
      try {
        if (handle.open) sync('sessionCloseStdin', handle.value);
        socket.end(() => done());
      } catch (error) {
        done(error);
      }
    },
    destroy(error, done) {
      socket.destroy();
      done(error);
    },
  });
}

/** An attached process. Closing it detaches: the process runs on. */
class Session {
  #handle;
  #streams = {};

  constructor(external) {
    this.#handle = new Handle(external, 'session');
  }

  #stream(name) {
    if (name in this.#streams) return this.#streams[name];
    const [fd] = sync('sessionTakeFd', this.#handle.value, CHANNELS[name]);
    let stream = null;
    if (fd >= 0) stream = name === 'stdin' ? input(this, this.#handle, fd) : new Socket({fd, readable: true, writable: false});
    this.#streams[name] = stream;
    return stream;
  }

  /** The process's stdin, a Writable; null: the session does not have it. Its end is the end of the process's input. */
  get stdin() {
    return this.#stream('stdin');
  }

  /** The process's stdout, a Readable; of a terminal all output; null: the session does not have it. */
  get stdout() {
    return this.#stream('stdout');
  }

  /** The process's stderr, a Readable; null: the session does not have it. */
  get stderr() {
    return this.#stream('stderr');
  }

  /** Whether the session has a stream that was not taken as a stream of node. */
  has(name) {
    if (!(name in CHANNELS)) throw new TypeMistake(`${name} is no stream of a process`);
    return sync('sessionFd', this.#handle.value, CHANNELS[name])[0] >= 0;
  }

  /** Pieces of either output as they come: {channel, data}. It and `write` are in place of the streams. */
  async *output(options = {}) {
    for (;;) {
      const [count, data, channel] = await run('sessionRead', [this.#handle.value, ROOM], options);
      if (count === 0) return;
      yield {channel: NAMES[channel], data};
    }
  }

  /** Writes to the process's stdin, all of it: how many bytes. */
  async write(data, options = {}) {
    let rest = typeof data === 'string' ? Buffer.from(data) : data;
    if (!(rest instanceof Uint8Array)) throw new TypeMistake('data is no string and no Buffer');
    rest = Buffer.from(rest.buffer, rest.byteOffset, rest.byteLength);
    const all = rest.length;
    while (rest.length > 0) {
      const [count] = await run('sessionWrite', [this.#handle.value, rest], options);
      rest = rest.subarray(count);
    }
    return all;
  }

  /** Ends the process's stdin. */
  closeStdin() {
    sync('sessionCloseStdin', this.#handle.value);
  }

  /** Gives the process its input, and collects both outputs until they end: {stdout, stderr}, Buffers. */
  async communicate(data, options = {}) {
    const {signal, timeout} = limits(options);
    if (signal?.aborted) throw aborted(signal);
    const {stdin, stdout, stderr} = this;
    const collect = async (stream) => {
      const pieces = [];
      if (stream) for await (const piece of stream) pieces.push(piece);
      return Buffer.concat(pieces);
    };
    const control = new AbortController();
    let refused;
    const end = (error) => {
      refused ??= {error};
      [stdin, stdout, stderr].forEach((stream) => stream?.destroy(error));
      control.abort(error);
    };
    const abort = () => end(aborted(signal));
    const timer = timeout === undefined ? undefined : setTimeout(() => end(late(timeout)), timeout);
    signal?.addEventListener('abort', abort);
    try {
      const fed = stdin ? feed(stdin, data) : Promise.resolve();
      // Outputs of a process without its input may never end.
      fed.catch(end);
      const [out, problems] = await Promise.all([collect(stdout), collect(stderr)]);
      await this.#taken(fed, control.signal);
      stdin?.destroy();
      return {stdout: out, stderr: problems};
    } catch (error) {
      throw refused ? refused.error : error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Waits until the process has its input, or has ended: then nobody takes the rest. */
  async #taken(fed, signal) {
    const control = new AbortController();
    const end = signal ? AbortSignal.any?.([signal, control.signal]) ?? control.signal : control.signal;
    const done = fed.then(() => true);
    // Most often it has the input already.
    if (await Promise.race([done, new Promise((resolve) => { setImmediate(resolve, false); })])) return;
    const ended = this.wait({signal: end});
    try {
      await Promise.race([done, ended]);
    } finally {
      control.abort();
      ended.catch(() => {});
      done.catch(() => {});
    }
  }

  /** Sets the size of the process's terminal. */
  resize(rows, cols) {
    sync('sessionResize', this.#handle.value, number(rows, 'rows', 0, 65535), number(cols, 'cols', 0, 65535));
  }

  /** Waits for the process's end: its exit code, 128 + n if signal n ended it. */
  async wait(options = {}) {
    const [, code] = await wait('sessionWait', [this.#handle.value], options);
    return code;
  }

  /** Detaches. Streams that were taken end with it. */
  close() {
    if (!this.#handle.close()) return;
    for (const stream of Object.values(this.#streams)) stream?.destroy();
  }

  [dispose]() {
    this.close();
  }
}

/** Writes the input; a process may end without reading all of it. */
async function feed(stdin, data) {
  const pieces = data === undefined || data === null ? [] : typeof data === 'string' || data instanceof Uint8Array ? [Buffer.from(data)] : data;
  try {
    await pipeline(Readable.from(pieces, {objectMode: false}), stdin);
  } catch (error) {
    if (!['EPIPE', 'ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE', 'ERR_STREAM_DESTROYED'].includes(error.code)) throw error;
  }
}

module.exports = {NAMES, Session, io};
