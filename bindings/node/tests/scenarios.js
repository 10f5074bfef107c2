// Runs the scenarios that all bindings share (bindings/scenarios) by the Node binding.
//
//     scenarios.js [WORDS]        only those whose names have WORDS in them
//
// Environment: CORACLE_LIBRARY, CORACLE_TEST_IMAGE (an archive), CORACLE_TEST_REGISTRY (host:port), CORACLE_SCENARIOS (the file).
'use strict';

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {isDeepStrictEqual} = require('node:util');
const {setTimeout: pause} = require('node:timers/promises');
const coracle = require('..');
const {steps: functions, Caller, Wrong} = require('./steps.js');

const list = JSON.parse(fs.readFileSync(process.env.CORACLE_SCENARIOS));
// The features that a scenario or a step may need, and Node has.
const FEATURES = ['dynamic'];
// How long to wait, in milliseconds, for something that comes.
const LONG = Number(process.env.CORACLE_TEST_SECONDS ?? 300) * 1000;

const lacking = (needs = []) => needs.find((need) => !FEATURES.includes(need));
const length = (value) => (value === null || value === undefined ? 0 : typeof value === 'object' && !Array.isArray(value) ? Object.keys(value).length : value.length);

const MATCHERS = {
  $has: (value, got) => typeof got === 'string' && got.includes(value),
  $above: (value, got) => typeof got === 'number' && got > value,
  $len: (value, got) => length(got) === value,
  $len_above: (value, got) => length(got) > value,
  $not: (value, got) => got !== null && got !== undefined && !isDeepStrictEqual(value, got),
  $one_of: (value, got) => value.some((one) => isDeepStrictEqual(one, got)),
  $contains: (value, got) => Array.isArray(got) && got.some((one) => matches(value, one)),
};

function matches(expected, got) {
  try {
    match(expected, got, '');
    return true;
  } catch (error) {
    if (error instanceof Wrong) return false;
    throw error;
  }
}

function match(expected, got, where) {
  const wrong = () => new Wrong(`${where || 'result'}: wanted ${JSON.stringify(expected)}, got ${JSON.stringify(got)?.slice(0, 600)}`);
  if (Array.isArray(expected)) {
    if (!Array.isArray(got) || got.length !== expected.length) throw wrong();
    expected.forEach((one, at) => match(one, got[at], `${where}[${at}]`));
  } else if (expected !== null && typeof expected === 'object') {
    for (const [key, value] of Object.entries(expected)) {
      if (key.startsWith('$')) {
        if (!MATCHERS[key](value, got)) throw wrong();
      } else {
        if (got === null || typeof got !== 'object') throw wrong();
        match(value, got[key], `${where}.${key}`);
      }
    }
  } else if (!isDeepStrictEqual(expected, got ?? null)) {
    throw wrong();
  }
}

/** A scenario on a root of its own. */
class Run {
  static async begin() {
    const run = new Run();
    // Short, because of sockets below it.
    run.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'scn-'));
    run.engine = await coracle.open(`${run.dir}/root`, {runDir: `${run.dir}/run`, config: {durability: 'off'}});
    run.things = {engine: run.engine};
    run.read = {};
    run.values = {...list.values, dir: run.dir, archive: process.env.CORACLE_TEST_IMAGE, registry: process.env.CORACLE_TEST_REGISTRY};
    [run.values.image] = await run.engine.images.load(process.env.CORACLE_TEST_IMAGE);
    return run;
  }

  async end() {
    // The scenario may have closed its own handle.
    const engine = await coracle.open(`${this.dir}/root`, {runDir: `${this.dir}/run`, config: {durability: 'off'}});
    for (const {Id} of await engine.containers.list({all: true})) {
      await engine.containers.get(Id).remove({force: true, volumes: true}).catch((error) => {
        if (error.code !== 'NOT_FOUND') throw error;
      });
    }
    for (const {Id} of await engine.plugins.list()) await engine.plugins.remove(Id, {force: true});
    await engine.networks.prune();
    await engine.networks.release();
    engine.close();
    for (const thing of Object.values(this.things)) await thing?.close?.();
    fs.rmSync(this.dir, {recursive: true});
  }

  /** Steps with values and handles of their own on the same root. */
  async aside(steps) {
    const run = Object.assign(new Run(), this, {values: {...this.values}, things: {...this.things}, read: {}});
    try {
      await run.steps(steps);
    } finally {
      for (const [name, thing] of Object.entries(run.things)) if (thing !== this.things[name]) await thing?.close?.();
    }
  }

  async steps(steps) {
    for (const one of steps) {
      if (lacking(one.needs)) continue;
      if (one.use) {
        await this.steps(list.fragments[one.use]);
        continue;
      }
      const end = performance.now() + LONG;
      for (;;) {
        try {
          await this.once(one);
          break;
        } catch (error) {
          if (one.retry && performance.now() < end) {
            await pause(50);
            continue;
          }
          throw new Error(`${JSON.stringify(one).slice(0, 300)}: ${error.message}`, {cause: error});
        }
      }
    }
  }

  async once(one) {
    const given = {};
    for (const [key, value] of Object.entries(one)) given[key] = key === 'steps' ? value : this.filled(value);
    const options = {};
    if (given.scope) options.signal = this.things[given.scope].signal;
    if (given.timeout_ms !== undefined && given.do !== 'events_next') options.timeout = given.timeout_ms;
    const engine = this.things[given.on ?? 'engine'];
    if (!functions[given.do]) throw new Wrong(`no step ${given.do}`);
    let result;
    try {
      result = await functions[given.do].call(this, engine, given, options);
    } catch (error) {
      if (error instanceof Wrong) throw error;
      expectError(given, error);
      return;
    }
    if (given.error) throw new Wrong(`wanted ${given.error}, got ${JSON.stringify(result)?.slice(0, 300)}`);
    if (given.expect !== undefined) match(given.expect, result, '');
    for (const [name, place] of Object.entries(given.save ?? {})) {
      this.values[name] = place.split('.').filter(Boolean).reduce((value, part) => value[part], result);
    }
  }

  /** A value with the values of names such as $id; $$ is a dollar sign. */
  filled(value) {
    if (Array.isArray(value)) return value.map((one) => this.filled(one));
    if (value !== null && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.filled(one)]));
    if (typeof value !== 'string') return value;
    if (value.startsWith('$') && value.slice(1) in this.values) return this.values[value.slice(1)];
    let made = value.replaceAll('$$', '\x01');
    for (const name of Object.keys(this.values).sort((a, b) => b.length - a.length)) {
      if (typeof this.values[name] === 'string') made = made.replaceAll(`$${name}`, () => this.values[name]);
    }
    return made.replaceAll('\x01', '$');
  }
}

function expectError(given, error) {
  let code = `an error of node: ${error.stack}`;
  if (error instanceof Caller) code = 'CALLER';
  else if (error instanceof TypeError && error.code === 'ERR_INVALID_ARG_TYPE') code = 'TYPE';
  else if (error instanceof coracle.CoracleError) ({code} = error);
  if (code !== given.error) throw new Wrong(given.error ? `wanted ${given.error}, got ${code}: ${error.message}` : `${code}: ${error.message}`);
  if (code === 'CANCELLED' && error.name !== 'AbortError') throw new Wrong('a cancelled call has no AbortError');
  if (given.status !== undefined && given.status !== error.status) throw new Wrong(`wanted status ${given.status}, got ${error.status}`);
  if (given.detail) {
    if ('field' in given.detail && given.detail.field !== error.field) throw new Wrong(`wanted field ${given.detail.field}, got ${error.field}`);
    match(given.detail, error.detail, 'detail');
  }
  if (given.has && !error.message.includes(given.has)) throw new Wrong(`wanted "${given.has}" in "${error.message}"`);
}

async function main(words = '') {
  let passed = 0;
  let failed = 0;
  for (const {name, needs, steps} of list.scenarios.filter((one) => one.name.includes(words))) {
    if (lacking(needs)) {
      console.log(`not for Node: ${name} (${lacking(needs)})`);
      continue;
    }
    if (process.env.CORACLE_VERBOSE) console.log(name);
    const run = await Run.begin();
    try {
      await run.steps(steps);
      passed++;
    } catch (error) {
      failed++;
      console.log(`failed: ${name}: ${error.message}`);
    }
    await run.end();
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed || !passed ? 1 : 0;
  // Every scenario closed what it had: nothing is left on which the loop would wait.
  setTimeout(() => {
    console.log(`failed: the loop does not end: ${process.getActiveResourcesInfo()}`);
    process.exit(1);
  }, LONG).unref();
}

main(process.argv[2]);
