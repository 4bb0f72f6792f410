// Packed files in the browser and in node, by librebnn as WebAssembly:
//
//   import { loadRuntime } from './rebnn.js';
//   const rebnn = await loadRuntime();
//   const model = rebnn.load(bytes);       // of an .onnx file
//   const answer = model.run(imageData);   // classes or objects, the best first
const ALIGNMENT = 64;
const MAX_PIXELS = 2 ** 25;
const OK = 0;

/** Compiles rebnn.wasm: the one next to this file, or bytes. */
export async function loadRuntime(code) {
  code ??= await readBeside('rebnn.wasm');
  const { instance } = await WebAssembly.instantiate(code, {});
  instance.exports._initialize();
  return new Runtime(instance.exports);
}

async function readBeside(name) {
  const url = new URL(name, import.meta.url);
  if (url.protocol === 'file:') return (await import('node:fs/promises')).readFile(url);
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return answer.arrayBuffer();
}

/** The library's memory and functions; a status that is not REBNN_OK becomes an Error with the library's sentence. */
class Runtime {
  constructor(functions) {
    this.functions = functions;
    this.isa = this.text(functions.rebnn_isa());
  }

  /**
   * A model from the bytes of its file. `size`, [width, height], is needed by classifiers whose file does not say how
   * large their images are.
   */
  load(bytes, size) {
    return new Model(this, bytes, size);
  }

  // Views end when the memory grows, so they are made anew each time.
  view() {
    return new DataView(this.functions.memory.buffer);
  }

  bytes(address, count) {
    return new Uint8Array(this.functions.memory.buffer, address, count);
  }

  floats(address, count) {
    return new Float32Array(this.functions.memory.buffer, address, count);
  }

  text(address) {
    const all = new Uint8Array(this.functions.memory.buffer);
    return new TextDecoder().decode(all.subarray(address, all.indexOf(0, address)));
  }

  allocate(bytes) {
    const whole = Math.ceil(Math.max(bytes, 1) / ALIGNMENT) * ALIGNMENT;
    const address = this.functions.aligned_alloc(ALIGNMENT, whole) >>> 0; // above 2 GiB it is negative
    if (!address) throw new Error(`there is no memory for ${bytes} bytes`);
    return address;
  }

  /** Calls with memory of these sizes, which is free again afterwards. */
  using(sizes, work) {
    const addresses = [];
    try {
      for (const size of sizes) addresses.push(this.allocate(size));
      return work(...addresses);
    } finally {
      addresses.forEach((address) => this.functions.free(address));
    }
  }

  check(status) {
    if (status !== OK) throw new Error(this.text(this.functions.rebnn_last_error()));
  }
}

class Model {
  #runtime;
  #file;
  #steps;
  #plan = null; // for the size of the last image

  constructor(runtime, bytes, size) {
    const about = readMetadata(bytes);
    this.task = about['rebnn.task'];
    if (!(this.task in RUNNERS)) throw new Error(`the task of this file is ${this.task ?? 'not named'}, and only ${Object.keys(RUNNERS).join(' and ')} run here`);
    this.classes = JSON.parse(about['rebnn.classes']);
    this.#steps = JSON.parse(about['rebnn.preprocess']);
    checkSteps(this.#steps);
    if (size) this.#steps.resize = { mode: 'exact', size };
    if (this.task === 'classification' && !this.#steps.resize && !this.#steps.crop) {
      throw new Error('this file does not say how large its images are: name the size, [width, height]');
    }
    this.#runtime = runtime;
    this.#file = bytes.slice();
  }

  /**
   * What the model sees in an image: `width`, `height` and the bytes `data` of RGB or RGBA, such as an ImageData. Of a
   * classifier [{name, label, score}], of a detector the same with a `box` [x1, y1, x2, y2] in pixels of the image.
   */
  run(image) {
    const prepared = this.prepare(image);
    const outputs = this.runPrepared(prepared);
    return outputs.map((one) => ({ name: this.classes[one.label] ?? String(one.label), ...one, ...(one.box && { box: toOriginal(one.box, prepared) }) }));
  }

  /** The network's input of an image, as float32 [3, height, width], and where it lies in the image. */
  prepare(image) {
    const geometry = planSteps(this.#steps, image.width, image.height);
    return { ...geometry, input: prepareImage(this.#runtime, image, this.#steps, geometry) };
  }

  /** Answers to a prepared image: {label, score} and perhaps a box in pixels of the input, the best first. */
  runPrepared({ input, size, valid }) {
    const [height, width] = size;
    this.#setPlan(height, width);
    return RUNNERS[this.task](this.#runtime, this.#plan, input, valid);
  }

  free() {
    if (this.#plan) this.#runtime.functions.rebnn_model_free(this.#plan.model);
    this.#plan = null;
  }

  #setPlan(height, width) {
    if (this.#plan?.height === height && this.#plan.width === width) return;
    this.free();
    const runtime = this.#runtime;
    this.#plan = runtime.using([this.#file.length, 4, 8, 8, 4], (file, model, channels, classes, scratch) => {
      runtime.bytes(file, this.#file.length).set(this.#file);
      runtime.check(runtime.functions.rebnn_model_load(file, this.#file.length, BigInt(height), BigInt(width), model));
      const address = runtime.view().getUint32(model, true);
      runtime.check(runtime.functions.rebnn_model_sizes(address, channels, classes, scratch));
      const view = runtime.view();
      const [planes, outputs] = [channels, classes].map((at) => Number(view.getBigInt64(at, true)));
      return { model: address, height, width, channels: planes, outputs, scratch: view.getUint32(scratch, true) };
    });
    if (this.#plan.channels !== 3) {
      this.free();
      throw new Error('the images of this model do not have 3 channels');
    }
  }
}

const RUNNERS = {
  classification(runtime, plan, input) {
    return runtime.using([input.byteLength, 4 * plan.outputs, plan.scratch], (image, scores, scratch) => {
      runtime.floats(image, input.length).set(input);
      runtime.check(runtime.functions.rebnn_model_run(plan.model, image, scores, scratch, plan.scratch));
      const found = Array.from(runtime.floats(scores, plan.outputs), (score, label) => ({ label, score }));
      return found.sort((a, b) => b.score - a.score);
    });
  },

  detection(runtime, plan, input, valid) {
    const { functions } = runtime;
    const most = runtime.using([8], (at) => {
      runtime.check(functions.rebnn_model_most_detections(plan.model, at));
      return Number(runtime.view().getBigInt64(at, true));
    });
    const sizes = [input.byteLength, 16, 16 * most, 4 * most, 8 * most, 8, plan.scratch];
    return runtime.using(sizes, (image, validAt, boxes, scores, labels, count, scratch) => {
      runtime.floats(image, input.length).set(input);
      valid.forEach((side, i) => runtime.view().setBigInt64(validAt + 8 * i, BigInt(side), true));
      runtime.check(functions.rebnn_model_detect(plan.model, image, validAt, boxes, scores, labels, count, scratch, plan.scratch));
      const view = runtime.view();
      return Array.from({ length: Number(view.getBigInt64(count, true)) }, (_, i) => ({
        label: Number(view.getBigInt64(labels + 8 * i, true)),
        score: view.getFloat32(scores + 4 * i, true),
        box: Array.from(runtime.floats(boxes + 16 * i, 4)),
      }));
    });
  },
};

/** The text entries of an ONNX file, from the top level of its protobuf. */
function readMetadata(bytes) {
  const text = new TextDecoder();
  const varint = (at) => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error('this is not a whole ONNX file');
      value += (byte & 127) * factor;
      if (!(byte & 128)) return [value, at];
    }
  };
  function* fields(at, end) {
    while (at < end) {
      let key, size;
      [key, at] = varint(at);
      if ((key & 7) === 0) { [, at] = varint(at); continue; }
      if ((key & 7) !== 2) throw new Error('this is not an ONNX file');
      [size, at] = varint(at);
      if (at + size > end) throw new Error('this is not a whole ONNX file');
      yield [Math.floor(key / 8), at, at + size];
      at += size;
    }
  }
  const found = {};
  for (const [field, start, end] of fields(0, bytes.length)) {
    if (field !== 14) continue; // metadata_props
    const entry = {};
    for (const [part, from, to] of fields(start, end)) entry[part] = text.decode(bytes.subarray(from, to));
    found[entry[1]] = entry[2] ?? '';
  }
  if (found['rebnn.format'] !== '1') throw new Error('this is not a packed model: its rebnn.format is not 1');
  return found;
}

/** Refuses steps of rebnn.preprocess that are not those of docs/format.md. */
function checkSteps(steps) {
  const wrong = (key) => { throw new Error(`${key} in rebnn.preprocess is not as the format says`); };
  const whole = (value) => Number.isInteger(value) && value > 0 && value <= MAX_PIXELS;
  const pair = (value) => Array.isArray(value) && value.length === 2 && value.every(whole);
  const three = (value) => Array.isArray(value) && value.length === 3 && value.every(Number.isFinite);
  const { resize, crop, letterbox, channels, mean, std, pad, ...others } = steps;
  for (const key in others) wrong(key);
  if (resize && !(resize.mode === 'short_edge' ? whole(resize.size) : ['keep_ratio', 'exact'].includes(resize.mode) && pair(resize.size))) wrong('resize');
  if (crop && !pair(crop)) wrong('crop');
  if (letterbox && !(three(letterbox.value) && (!letterbox.size || pair(letterbox.size)) && whole(letterbox.divisor ?? 1))) wrong('letterbox');
  if (!['rgb', 'bgr'].includes(channels)) wrong('channels');
  if (!mean !== !std || (mean && !(three(mean) && three(std) && std.every(Math.fround)))) wrong('mean or std');
  if (pad && !(whole(pad.divisor) && Number.isFinite(pad.value))) wrong('pad');
}

/** Sizes and places, as [height, width] or [y, x], of the steps for an image of this size. */
function planSteps(steps, width, height) {
  const resized = resizedTo(steps.resize, width, height);
  const kept = steps.crop ? [Math.min(steps.crop[1], resized[0]), Math.min(steps.crop[0], resized[1])] : resized;
  const { letterbox } = steps;
  let filled = kept;
  if (letterbox) {
    if (letterbox.size) filled = [Math.max(filled[0], letterbox.size[1]), Math.max(filled[1], letterbox.size[0])];
    if (letterbox.square) filled = [Math.max(...filled), Math.max(...filled)];
    filled = filled.map((side) => roundUp(side, letterbox.divisor ?? 1));
  }
  const size = filled.map((side) => roundUp(side, steps.pad?.divisor ?? 1));
  if (Math.min(...resized) < 1 || Math.max(resized[0] * resized[1], size[0] * size[1]) > MAX_PIXELS) {
    throw new Error(`an image of ${width} x ${height} pixels becomes too small or too large in this model`);
  }
  const first = [0, 1].map((axis) => roundToEven((resized[axis] - kept[axis]) / 2));
  return { resized, kept, first, filled, size, valid: letterbox ? filled : kept, scale: [resized[0] / height, resized[1] / width] };
}

function resizedTo(resize, width, height) {
  if (!resize) return [height, width];
  const { mode, size } = resize;
  if (mode === 'exact') return [size[1], size[0]];
  if (mode === 'short_edge') return width < height ? [Math.trunc((size * height) / width), size] : [size, Math.trunc((size * width) / height)];
  const factor = Math.min(Math.max(...size) / Math.max(width, height), Math.min(...size) / Math.min(width, height));
  return [Math.trunc(height * factor + 0.5), Math.trunc(width * factor + 0.5)];
}

const roundUp = (side, divisor) => Math.ceil(side / divisor) * divisor;
const roundToEven = (half) => (half % 1 === 0.5 ? 2 * Math.round(half / 2) : Math.round(half));

/** Boxes of the network in pixels of the image. */
const toOriginal = (box, { first, scale }) => box.map((side, i) => (side + first[1 - (i % 2)]) / scale[1 - (i % 2)]);

function prepareImage(runtime, { data, width, height }, steps, { resized, kept, first, filled, size }) {
  const each = data.length / (width * height);
  if (each !== 3 && each !== 4) throw new Error(`an image of ${width} x ${height} pixels needs 3 or 4 bytes for each, not ${data.length} in all`);
  const { letterbox, mean, std, pad } = steps;
  const reals = (values) => Float32Array.from(values);
  const [means, stds] = [reals(mean ?? [0, 0, 0]), reals(std ?? [1, 1, 1])];
  const padding = Math.fround(pad?.value ?? 0);
  const fill = letterbox ? reals(letterbox.value.map((value, c) => Math.fround(value - means[c]) / stds[c])) : reals([padding, padding, padding]);
  const made = letterbox ? filled : size;
  const input = runtime.using([3 * width * height, 12, 12, 12, 12 * made[0] * made[1], IMAGE_BYTES, 4], (pixels, ...addresses) => {
    const [meanAt, stdAt, fillAt, y, io, needed] = addresses;
    const rgb = runtime.bytes(pixels, 3 * width * height);
    if (each === 3) rgb.set(data);
    else for (let from = 0, to = 0; from < data.length; from += 4) for (let c = 0; c < 3; ++c) rgb[to++] = data[from + c];
    [[meanAt, means], [stdAt, stds], [fillAt, fill]].forEach(([at, values]) => runtime.floats(at, 3).set(values));
    writeImageIo(runtime.view(), io, {
      sides: [height, width, 3 * width],
      image: pixels,
      sizes: [...resized, ...first, ...kept, ...made, 0, 0],
      reverse: steps.channels === 'bgr',
      pointers: [mean ? meanAt : 0, mean ? stdAt : 0, fillAt, y],
    });
    runtime.check(runtime.functions.rebnn_image_scratch_size(io, needed));
    const bytes = runtime.view().getUint32(needed, true);
    runtime.using([bytes], (scratch) => {
      runtime.check(runtime.functions.rebnn_image_rows(io, 0n, BigInt(made[0]), scratch, bytes));
    });
    return runtime.floats(y, 3 * made[0] * made[1]).slice();
  });
  return made[0] === size[0] && made[1] === size[1] ? input : padded(input, made, size, padding);
}

/** Planes with a value at the right and at the bottom. */
function padded(planes, [height, width], [fullHeight, fullWidth], value) {
  const result = new Float32Array(3 * fullHeight * fullWidth).fill(value);
  for (let row = 0; row < 3 * height; ++row) {
    const to = (Math.floor(row / height) * fullHeight + (row % height)) * fullWidth;
    result.set(planes.subarray(row * width, (row + 1) * width), to);
  }
  return result;
}

// A rebnn_image_io where pointers have 32 bits and numbers of 64 bits begin at multiples of 8.
const IMAGE_BYTES = 136;
function writeImageIo(view, at, { sides, image, sizes, reverse, pointers }) {
  const wide = (place, values) => values.forEach((value, i) => view.setBigInt64(at + place + 8 * i, BigInt(value), true));
  wide(0, sides);
  view.setUint32(at + 24, image, true);
  wide(32, sizes);
  [reverse ? 1 : 0, ...pointers].forEach((value, i) => view.setUint32(at + 112 + 4 * i, value, true));
}
