// Networks and volumes.
'use strict';

const {document, members, text} = require('./native.js');
const {run} = require('./call.js');
const {optional, parsed} = require('./containers.js');

/** Lists are filtered by a member of their query. */
const filtered = (filters) => (filters === undefined ? null : document(members({filters}, ['filters'])));

/** The networks of an engine. */
class Networks {
  #engine;

  constructor(engine) {
    this.#engine = engine;
  }

  #run(name, values, options) {
    return run(name, [this.#engine.handle.value, ...values], options);
  }

  /** Creates a network of a body of POST /networks/create: its id. */
  async create(body, options = {}) {
    return (await this.#run('networkCreate', [document(body, 'body')], options))[1];
  }

  /** Lists networks. */
  async list({filters} = {}) {
    return parsed(await this.#run('networkList', [filtered(filters)]));
  }

  /** Describes a network in full. */
  async inspect(id) {
    return parsed(await this.#run('networkInspect', [text(id, 'id')]));
  }

  /** Connects a container; `endpoint` is the EndpointConfig. */
  async connect(id, container, {endpoint, ...options} = {}) {
    const body = members({Container: text(container, 'container'), EndpointConfig: endpoint}, ['Container', 'EndpointConfig']);
    await this.#run('networkConnect', [text(id, 'id'), JSON.stringify(body)], options);
  }

  /** Disconnects a container. */
  async disconnect(id, container, {force = false, ...options} = {}) {
    const body = JSON.stringify({Container: text(container, 'container'), Force: force});
    await this.#run('networkDisconnect', [text(id, 'id'), body], options);
  }

  /** Removes a network. */
  async remove(id, options = {}) {
    await this.#run('networkRemove', [text(id, 'id')], options);
  }

  /** Removes networks that no container uses. */
  async prune({filters, ...options} = {}) {
    return parsed(await this.#run('networkPrune', [optional(filters)], options));
  }

  /** Removes the kernel's parts of networks without running containers. */
  async release(options = {}) {
    await this.#run('networkRelease', [], options);
  }

  /** Puts back the parts of networks that another program removed. */
  async repair(options = {}) {
    await this.#run('networkRepair', [], options);
  }
}

/** The volumes of an engine. */
class Volumes {
  #engine;

  constructor(engine) {
    this.#engine = engine;
  }

  #run(name, values, options) {
    return run(name, [this.#engine.handle.value, ...values], options);
  }

  /** Creates a volume of a body of POST /volumes/create: its document. */
  async create(body = {}, options = {}) {
    return JSON.parse((await this.#run('volumeCreate', [document(body, 'body')], options))[2]);
  }

  /** Lists volumes: {Volumes, Warnings}. */
  async list({filters} = {}) {
    return parsed(await this.#run('volumeList', [filtered(filters)]));
  }

  /** Describes a volume. */
  async inspect(name) {
    return parsed(await this.#run('volumeInspect', [text(name, 'name')]));
  }

  /** Removes a volume. */
  async remove(name, options = {}) {
    await this.#run('volumeRemove', [text(name, 'name')], options);
  }

  /** Removes volumes that nothing uses. */
  async prune({filters, ...options} = {}) {
    return parsed(await this.#run('volumePrune', [optional(filters)], options));
  }
}

module.exports = {Networks, Volumes};
