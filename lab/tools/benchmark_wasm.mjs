// Times librebnn as WebAssembly in node: the binary layers of ResNet-18, and a classifier next to onnxruntime-web.
//
//   bash tools/build_wasm.sh dist/wasm && npm install --prefix build/web onnxruntime-web
//   node lab/tools/benchmark_wasm.mjs dist/wasm rebnn_mm/zoo/cifar10-resnet20.onnx 32 build/web
//
// The classifier's images have the given side. Shortest times and medians, both sides in turns, one thread.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, file, side, web] = process.argv.slice(2);
const { loadRuntime } = await import(pathToFileURL(resolve(folder, 'rebnn.js')));
const rebnn = await loadRuntime();

const take = async (times, count, call) => {
  for (let i = 0; i < count; ++i) {
    const start = performance.now();
    await call();
    times.push(performance.now() - start);
  }
};
const shown = (times) => {
  times.sort((a, b) => a - b);
  return `shortest ${times[0].toFixed(3)} ms, median ${times[times.length >> 1].toFixed(3)} ms`;
};

// As "block" of runtime/tests/bench_conv.cpp: packed input, every step after the sum, real and packed output.
function blockOf(inputs, outputs, size, stride) {
  const { functions } = rebnn;
  const memory = (bytes, byte = 0) => {
    const at = rebnn.allocate(bytes);
    rebnn.bytes(at, bytes).fill(byte);
    return at;
  };
  const mixed = (bytes) => {
    const at = memory(bytes);
    rebnn.bytes(at, bytes).forEach((_, i, all) => (all[i] = (i * 2654435761) >>> 13));
    return at;
  };
  const wide = (at, values) => values.forEach((value, i) => rebnn.view().setBigInt64(at + 8 * i, BigInt(value), true));
  const narrow = (at, values) => values.forEach((value, i) => rebnn.view().setUint32(at + 4 * i, value, true));
  const description = memory(112), place = memory(4), io = memory(88);
  wide(description, [inputs, outputs, 1, 3, 3, stride, stride, 1, 1, 1, 1, 1, 1]);
  const weightBytes = (outputs * 9 * inputs) / 8;
  rebnn.check(functions.rebnn_conv_create(description, mixed(weightBytes), weightBytes, place));
  const conv = rebnn.view().getUint32(place, true);
  const out = size / stride, reals = 4 * out * out * outputs;
  const scratchBytes = (rebnn.check(functions.rebnn_conv_scratch_size(conv, 1n, BigInt(size), BigInt(size), 1, place)), rebnn.view().getUint32(place, true));
  const each = memory(4 * outputs), x = mixed((size * size * inputs) / 8);
  rebnn.floats(each, outputs).fill(0.01);
  const residual = memory(reals), y = memory(reals), bits = memory(reals / 32), scratch = memory(scratchBytes);
  wide(io, [1, size, size]);
  // x, shift, x_bits, layout, sums, scale, mul, add, residual, pre, slope, post, y, next_shift, y_bits, clip
  narrow(io + 24, [0, 0, x, 1, 0, each, each, each, residual, each, each, each, y, each, bits, 0]);
  return () => rebnn.check(functions.rebnn_conv_run(conv, io, scratch, scratchBytes, 0));
}

const LAYERS = [[64, 64, 56, 1, 4], [64, 128, 56, 2, 1], [128, 128, 28, 1, 3], [128, 256, 28, 2, 1], [256, 256, 14, 1, 3], [256, 512, 14, 2, 1], [512, 512, 7, 1, 3]];
let shortest = 0, middle = 0;
for (const [inputs, outputs, size, stride, count] of LAYERS) {
  const block = blockOf(inputs, outputs, size, stride), times = [];
  await take([], 50, block); // until the code is optimised
  await take(times, 400, block);
  console.log(`${inputs} -> ${outputs}, ${size} /${stride}: ${shown(times)}`);
  shortest += count * times[0];
  middle += count * times[times.length >> 1];
}
console.log(`all 16 of ResNet-18: shortest ${shortest.toFixed(2)} ms, medians ${middle.toFixed(2)} ms`);

const bytes = readFileSync(file);
const model = rebnn.load(bytes, [Number(side), Number(side)]);
const data = new Uint8Array(3 * side * side).map((_, i) => (i * 7919) >>> 3);
const prepared = model.prepare({ data, width: Number(side), height: Number(side) });
const ort = await import(pathToFileURL(resolve(web, 'node_modules/onnxruntime-web/dist/ort.wasm.min.mjs')));
ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
const feeds = { image: new ort.Tensor('float32', prepared.input, [1, 3, ...prepared.size]) };
const [ours, theirs] = [[], []];
await take([], 50, () => model.runPrepared(prepared));
for (let block = 0; block < 200; ++block) {
  await take(ours, 5, () => model.runPrepared(prepared));
  await take(theirs, 2, () => session.run(feeds));
}
console.log(`${file}, librebnn: ${shown(ours)}`);
console.log(`${file}, onnxruntime-web: ${shown(theirs)}`);
process.exit(0); // onnxruntime-web keeps node waiting
