// The HTTP API in process: requests, connections, agents, servers.
'use strict';

const {Agent} = require('node:http');
const {createRequire} = require('node:module');
const {Socket} = require('node:net');
const path = require('node:path');
const {document, number, sync, text} = require('./native.js');
const {Handle, asyncDispose, run} = require('./call.js');
const {TypeMistake} = require('./errors.js');
const {Body} = require('./streams.js');

/** Answers a request; a status that reports a failure is an answer, too. */
async function request(engine, method, target, options) {
  const {headers, body} = options;
  const bytes = typeof body === 'string' ? Buffer.from(body) : body ?? null;
  if (bytes !== null && !(bytes instanceof Uint8Array)) throw new TypeMistake('body is no string and no Buffer');
  const values = [engine, text(method, 'method'), text(target, 'target'), document(headers, 'headers'), bytes && Buffer.from(bytes)];
  const [, status, stream] = await run('httpRequest', values, options);
  return {status, body: new Body(stream)};
}

/** A private connection: no listening socket, no path, no port. */
function connect(engine) {
  const [, fd] = sync('httpConnect', engine);
  return new Socket({fd, readable: true, writable: true});
}

/** An agent for clients of node:http. */
class EngineAgent extends Agent {
  #engine;

  constructor(engine, options) {
    super(options);
    this.#engine = engine;
  }

  createConnection() {
    return this.#engine.connect();
  }
}

/** A client of the package dockerode, which the program has, over private connections of the engine. */
function dockerode(engine, Docker = ofProgram('dockerode')) {
  return new Docker({protocol: 'http', host: 'coracle', port: 80, agent: engine.agent()});
}

/** A package of the program, which this package does not depend on. */
function ofProgram(name) {
  const from = require.main?.filename ?? path.join(process.cwd(), 'none.js');
  return createRequire(from)(name);
}

/** Begins to serve. */
async function serve(engine, {addresses = [], fds = [], insecureTcp = false, hostNames = []}) {
  const options = {Addresses: addresses, InsecureTcp: insecureTcp, HostNames: hostNames};
  if (!Array.isArray(fds)) throw new TypeMistake('fds is not a list of descriptors');
  fds.forEach((fd) => number(fd, 'a descriptor', 0, 2 ** 31 - 1));
  return new Server((await run('httpServe', [engine, document(options), fds]))[1]);
}

/** The servers that serve: one that the program forgets goes on. */
const serving = new Set();

/** Serves the HTTP API to others until it is closed or the program ends. It does not keep the program running. */
class Server {
  #handle;

  constructor(external) {
    this.#handle = new Handle(external, 'server');
    serving.add(this);
  }

  /** The addresses, with the ports that were chosen. */
  get addresses() {
    return JSON.parse(sync('httpServerAddresses', this.#handle.value)[1]);
  }

  /** Ends serving; answers under way have `graceMs` to come to their end. */
  async shutdown({graceMs = 0, ...options} = {}) {
    await run('httpServerShutdown', [this.#handle.value, number(graceMs, 'graceMs', 0, Number.MAX_SAFE_INTEGER)], options);
  }

  /** Ends the server, without grace. */
  async close() {
    if (!this.#handle.open) return;
    try {
      await this.shutdown();
    } finally {
      serving.delete(this);
      this.#handle.close();
    }
  }

  async [asyncDispose]() {
    await this.close();
  }
}

module.exports = {EngineAgent, Server, connect, dockerode, request, serve};
