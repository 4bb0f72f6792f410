// Runs a test program that was compiled for WebAssembly: node run_wasm.mjs PROGRAM [ARGUMENT ...]
// It exits as the program does. As much of WASI as they call; node 20's own crashes after a program whose memory grew.
import { readFileSync, writeSync } from 'node:fs';

const OK = 0, NOT_OPEN = 8;
const ROOT = 3, FILE = 4; // numbers of open files; three are the usual ones

const args = process.argv.slice(2);
let memory, file, place;

const view = () => new DataView(memory.buffer);
const set = (at, value) => view().setUint32(at, value, true);
const bytes = (at, count) => new Uint8Array(memory.buffer, at, count);
const texts = args.map((arg) => new TextEncoder().encode(`${arg}\0`));

function* parts(list, count) {
  for (let i = 0; i < count; ++i) yield bytes(view().getUint32(list + 8 * i, true), view().getUint32(list + 8 * i + 4, true));
}

class Exit extends Error {}

const system = {
  args_sizes_get(count, size) {
    set(count, texts.length);
    set(size, texts.reduce((sum, text) => sum + text.length, 0));
    return OK;
  },
  args_get(pointers, to) {
    for (const [i, text] of texts.entries()) {
      set(pointers + 4 * i, to);
      bytes(to, text.length).set(text);
      to += text.length;
    }
    return OK;
  },
  environ_sizes_get(count, size) {
    set(count, 0);
    set(size, 0);
    return OK;
  },
  environ_get: () => OK,
  fd_prestat_get(fd, to) {
    if (fd !== ROOT) return NOT_OPEN;
    set(to, 0); // a folder
    set(to + 4, 1);
    return OK;
  },
  fd_prestat_dir_name(fd, to) {
    bytes(to, 1)[0] = '/'.charCodeAt(0);
    return OK;
  },
  path_open(folder, flags, name, length, how, rights, inherited, more, fd) {
    file = readFileSync(`/${new TextDecoder().decode(bytes(name, length))}`);
    place = 0;
    set(fd, FILE);
    return OK;
  },
  fd_fdstat_get(fd, to) {
    bytes(to, 24).fill(0);
    bytes(to, 1)[0] = fd === FILE ? 4 : fd === ROOT ? 3 : 2; // a file, a folder, a terminal
    bytes(to + 8, 16).fill(255); // rights
    return OK;
  },
  fd_fdstat_set_flags: () => OK,
  fd_read(fd, list, count, read) {
    const first = place;
    for (const part of parts(list, count)) {
      const piece = file.subarray(place, place + part.length);
      part.set(piece);
      place += piece.length;
    }
    set(read, place - first);
    return OK;
  },
  fd_write(fd, list, count, written) {
    let size = 0;
    for (const part of parts(list, count)) {
      for (let done = 0; done < part.length; ) done += writeSync(fd, part, done);
      size += part.length;
    }
    set(written, size);
    return OK;
  },
  fd_seek: () => NOT_OPEN,
  fd_close: () => OK,
  proc_exit(status) {
    process.exitCode = status;
    throw new Exit();
  },
};

const { instance } = await WebAssembly.instantiate(readFileSync(args[0]), { wasi_snapshot_preview1: system });
memory = instance.exports.memory;
try {
  instance.exports._start();
} catch (error) {
  if (!(error instanceof Exit)) throw error;
}
