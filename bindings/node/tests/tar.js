// Small tars for tests: of texts by name, and back.
'use strict';

const BLOCK = 512;

function header(name, size) {
  const made = Buffer.alloc(BLOCK);
  const octal = (value, at, length) => made.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at);
  made.write(name, 0);
  octal(0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  made.write('        ', 148);
  made.write('0', 156);
  made.write('ustar\x0000', 257, 'latin1');
  octal(made.reduce((sum, byte) => sum + byte, 0), 148, 7);
  return made;
}

/** A tar of texts. */
function tarOf(files) {
  const pieces = Object.entries(files).flatMap(([name, content]) => {
    const data = Buffer.from(content);
    return [header(name, data.length), data, Buffer.alloc((BLOCK - (data.length % BLOCK)) % BLOCK)];
  });
  return Buffer.concat([...pieces, Buffer.alloc(2 * BLOCK)]);
}

/** The small files of a tar, a stream. */
async function filesOf(body) {
  const pieces = [];
  for await (const piece of body) pieces.push(piece);
  const all = Buffer.concat(pieces);
  const found = {};
  for (let at = 0; at + BLOCK <= all.length && all[at] !== 0;) {
    const field = (from, length) => all.subarray(at + from, at + from + length).toString().split('\0')[0];
    const size = parseInt(field(124, 12), 8);
    const kind = field(156, 1);
    if ((kind === '0' || kind === '') && size < 4096) found[field(0, 100)] = all.subarray(at + BLOCK, at + BLOCK + size).toString();
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return found;
}

module.exports = {filesOf, tarOf};
