// Images: archives, registries, builds.
'use strict';

const {document, maybe, number, numbers, text} = require('./native.js');
const {ARCHIVE, Directory, run, work} = require('./call.js');
const {flags, optional, parsed, query} = require('./containers.js');
const {Body} = require('./streams.js');

const id = ([, made]) => made;

/** The images of an engine. Calls with progress give a Work: a promise of the result, and an async iterator of the records. */
class Images {
  #engine;

  constructor(engine) {
    this.#engine = engine;
  }

  #run(name, values, options) {
    return run(name, [this.#engine.handle.value, ...values], options);
  }

  #work(name, values, archive, options, result) {
    return work(name, [this.#engine.handle.value, ...values], archive, options, result);
  }

  /** Lists images. */
  async list(options = {}) {
    return parsed(await this.#run('imageList', [query(options, ['all', 'filters'])]));
  }

  /** Describes an image in full. */
  async inspect(ref) {
    return parsed(await this.#run('imageInspect', [text(ref, 'ref')]));
  }

  /** Lists the steps by which an image was made. */
  async history(ref) {
    return parsed(await this.#run('imageHistory', [text(ref, 'ref')]));
  }

  /** Gives an image a further name. */
  async tag(ref, name) {
    await this.#run('imageTag', [text(ref, 'ref'), text(name, 'name')]);
  }

  /** Removes a name, and the image with its last one. `force`, `noPrune` (untagged parents stay). */
  async remove(ref, options = {}) {
    const names = {force: numbers.IMAGE_REMOVE_FORCE, noPrune: numbers.IMAGE_REMOVE_NO_PRUNE};
    return parsed(await this.#run('imageRemove', [text(ref, 'ref'), flags(options, names)], options));
  }

  /** Removes images that nothing uses. */
  async prune({filters, ...options} = {}) {
    return parsed(await this.#run('imagePrune', [optional(filters)], options));
  }

  /** Removes the caches of builds. */
  async pruneCaches({filters, ...options} = {}) {
    return parsed(await this.#run('buildPrune', [optional(filters)], options));
  }

  /** Loads images of an archive: a path, a Buffer, a stream, an iterable of Buffers. The result is their names. */
  load(archive, options = {}) {
    return this.#work('imageLoad', [ARCHIVE], archive, options, parsed);
  }

  /** Saves images as an archive, a Readable; layout: "docker" or "oci". */
  async save(names, options = {}) {
    const which = JSON.stringify({names: [names].flat(), ...(options.layout === undefined ? {} : {layout: text(options.layout, 'layout')})});
    return new Body((await this.#run('imageSave', [which], options))[1]);
  }

  /** Makes an image of a tar of its files: its id. */
  import(archive, options = {}) {
    const which = query(options, ['repo', 'tag', 'message', 'changes', 'url']);
    return this.#work('imageImport', [which, ARCHIVE], archive, options, id);
  }

  /** Builds an image of a context, a tar: its id. `query` has the members of POST /build. */
  build(archive, {query: which, ...options} = {}) {
    return this.#work('imageBuild', [document(which, 'query'), ARCHIVE], archive, options, id);
  }

  /** Builds an image of a directory, which is read where it is: its id. */
  buildDir(directory, {query: which, ...options} = {}) {
    const place = new Directory(text(directory, 'directory'));
    return this.#work('imageBuildDir', [document(which, 'query'), ARCHIVE], place, options, id);
  }

  /** Pulls one image of a registry: its id. `auth` has credentials; `platform`, such as "linux/arm64", chooses of a list (this machine's). */
  pull(ref, {auth, platform, ...options} = {}) {
    const [image, chosen, credentials] = [text(ref, 'ref'), maybe(platform, 'platform'), document(auth, 'auth')];
    if (chosen === null) return this.#work('imagePull', [image, credentials], undefined, options, id);
    return this.#work('imagePullPlatform', [image, chosen, credentials], undefined, options, id);
  }

  /** Pushes an image: {Tag, Digest, Size}. */
  push(ref, {auth, ...options} = {}) {
    return this.#work('imagePush', [text(ref, 'ref'), document(auth, 'auth')], undefined, options, parsed);
  }

  /** Searches a registry for images. */
  async search(term, {auth, ...options} = {}) {
    const which = query({...options, term: text(term, 'term')}, ['term', 'limit', 'filters']);
    return parsed(await this.#run('imageSearch', [which, document(auth, 'auth')], options));
  }

  /** Describes an image of a registry without a pull. */
  async inspectRemote(ref, {auth, ...options} = {}) {
    return parsed(await this.#run('registryInspect', [text(ref, 'ref'), document(auth, 'auth')], options));
  }

  /** Checks credentials at their registry. */
  async checkLogin(auth, options = {}) {
    return parsed(await this.#run('registryAuth', [document(auth, 'auth')], options));
  }
}

/** The plugins of an engine. */
class Plugins {
  #engine;

  constructor(engine) {
    this.#engine = engine;
  }

  #run(name, values, options) {
    return run(name, [this.#engine.handle.value, ...values], options);
  }

  /** Lists plugins. */
  async list({filters} = {}) {
    return parsed(await this.#run('pluginList', [filters === undefined ? null : document({filters})]));
  }

  /** Describes a plugin in full. */
  async inspect(name) {
    return parsed(await this.#run('pluginInspect', [text(name, 'name')]));
  }

  /** Lists the privileges that a plugin of a registry needs. */
  async privileges(remote, {auth, ...options} = {}) {
    return parsed(await this.#run('pluginPrivileges', [text(remote, 'remote'), document(auth, 'auth')], options));
  }

  /** Pulls a plugin: its id. `body` has "Remote", "Name", "Privileges" (without them: all that it needs), "Auth". */
  pull(body, options = {}) {
    return work('pluginPull', [this.#engine.handle.value, document(body, 'body')], undefined, options, id);
  }

  /** Replaces a disabled plugin by another version. */
  upgrade(name, body, options = {}) {
    const values = [this.#engine.handle.value, text(name, 'name'), document(body, 'body')];
    return work('pluginUpgrade', values, undefined, options, () => undefined);
  }

  /** Enables a plugin; `waitSeconds`: how long to wait until it answers. */
  async enable(name, {waitSeconds = 0, ...options} = {}) {
    await this.#run('pluginEnable', [text(name, 'name'), number(waitSeconds, 'waitSeconds', 0, 2 ** 32 - 1)], options);
  }

  /** Disables a plugin; `force`: also one that is in use. */
  async disable(name, options = {}) {
    await this.#run('pluginDisable', [text(name, 'name'), flags(options, {force: numbers.PLUGIN_FORCE})], options);
  }

  /** Removes a plugin; `force`: also an enabled one. */
  async remove(name, options = {}) {
    await this.#run('pluginRemove', [text(name, 'name'), flags(options, {force: numbers.PLUGIN_FORCE})], options);
  }

  /** Changes settings of a disabled plugin, each NAME[.FIELD]=VALUE. */
  async set(name, changes) {
    await this.#run('pluginSet', [text(name, 'name'), document(changes, 'changes')]);
  }
}

module.exports = {Images, Plugins};
