// The addon and the library: where they are found, and calls of single functions.
'use strict';

const {existsSync, readFileSync} = require('node:fs');
const path = require('node:path');
const {failed, misuse, TypeMistake} = require('./errors.js');

// Whether this machine's C library is musl: node's own report says so, without another program.
function musl() {
  try {
    return readFileSync('/usr/bin/ldd', 'latin1').includes('musl');
  } catch {
    return !process.report?.getReport?.().header?.glibcVersionRuntime;
  }
}

// The package with the addon and the library for this machine, if it is installed: `@libcoracle/linux-x64-gnu`.
function platformDirectory() {
  try {
    return path.dirname(require.resolve(`@libcoracle/linux-${process.arch}-${musl() ? 'musl' : 'gnu'}/package.json`));
  } catch {
    return null;
  }
}

const top = path.dirname(__dirname);
const platform = platformDirectory();

// The addon: the one that build.sh made here, then the platform package's.
function addonPath() {
  const places = [path.join(top, 'coracle.node'), platform && path.join(platform, 'coracle.node')].filter(Boolean);
  const found = places.find((place) => existsSync(place));
  if (found) return found;
  throw new Error(`coracle: the addon is not there: ${places.join(', ')}. Run build.sh in ${top}, or install the package of this platform`);
}

// The library: CORACLE_LIBRARY, then the platform package's, then the system's.
function libraryPath() {
  if (process.env.CORACLE_LIBRARY) return process.env.CORACLE_LIBRARY;
  const packed = platform && path.join(platform, 'libcoracle.so.1');
  return packed && existsSync(packed) ? packed : 'libcoracle.so.1';
}

const addon = require(addonPath());
const {functions, numbers} = addon.load(libraryPath());

/** A text for the library. */
function text(value, name) {
  if (typeof value !== 'string') throw new TypeMistake(`${name} is not a string`);
  if (value.includes('\0')) throw misuse('INVALID', `${name} has a NUL in it`);
  return value;
}

/** A text for the library, or null. */
const maybe = (value, name) => (value === undefined || value === null ? null : text(value, name));

/** A number from least to most. */
function number(value, name, least, most) {
  if (typeof value !== 'number') throw new TypeMistake(`${name} is not a number`);
  if (!Number.isInteger(value) || value < least || value > most) throw misuse('INVALID', `${name}: ${value} is not a whole number from ${least} to ${most}`);
  return value;
}

/** A document for the library, or null. */
function document(value, name = 'the document') {
  if (value === undefined || value === null) return null;
  if (typeof value !== 'object') throw new TypeMistake(`${name} is not an object`);
  return JSON.stringify(value);
}

/** Members of an object that are given; null: none is. */
function members(object, names) {
  const made = {};
  for (const name of names) if (object[name] !== undefined) made[name] = object[name];
  return made;
}

/** Calls a function on this thread: the answers, the status first. */
function sync(name, ...values) {
  const {failure, answers} = addon.sync(functions[name], values);
  if (failure) throw failed(failure);
  return answers;
}

module.exports = {addon, document, functions, maybe, members, number, numbers, sync, text};
