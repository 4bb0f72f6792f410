// Runs a packed detector in the browser by onnxruntime-web: a photograph in, painted boxes out. See browser.md.
const ORT = 'https://cdn.jsdelivr.net/npm/onnxruntime-web@1.30.0/dist/';
const COLOURS = ['#e6194b', '#0082c8', '#3cb44b', '#f58231', '#911eb4', '#008080'];

/** The text entries of an ONNX file: onnxruntime-web does not hand them out, so this walks the top level of the protobuf. */
function readMetadata(bytes) {
  const text = new TextDecoder();
  const varint = (at) => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
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
      yield [key >> 3, at, at + size];
      at += size;
    }
  }
  const found = {};
  for (const [field, start, end] of fields(0, bytes.length)) {
    if (field !== 14) continue; // metadata_props
    const [key, value] = [...fields(start, end)].map(([, from, to]) => text.decode(bytes.subarray(from, to)));
    found[key] = value;
  }
  return found;
}

/** Bilinear without smoothing, as OpenCV's INTER_LINEAR: a canvas resizes differently, and signs depend on it. */
function resize({ data, width, height }, newWidth, newHeight) {
  const out = new Float32Array(newWidth * newHeight * 3);
  const clamp = (value, most) => Math.min(Math.max(value, 0), most);
  for (let y = 0; y < newHeight; y++) {
    const sy = clamp((y + 0.5) * height / newHeight - 0.5, height - 1);
    const y0 = Math.floor(sy), y1 = Math.min(y0 + 1, height - 1), fy = sy - y0;
    for (let x = 0; x < newWidth; x++) {
      const sx = clamp((x + 0.5) * width / newWidth - 0.5, width - 1);
      const x0 = Math.floor(sx), x1 = Math.min(x0 + 1, width - 1), fx = sx - x0;
      for (let c = 0; c < 3; c++) {
        const at = (row, column) => data[(row * width + column) * 4 + c];
        const top = at(y0, x0) * (1 - fx) + at(y0, x1) * fx;
        const bottom = at(y1, x0) * (1 - fx) + at(y1, x1) * fx;
        out[(y * newWidth + x) * 3 + c] = Math.round(top * (1 - fy) + bottom * fy);
      }
    }
  }
  return out;
}

/** The network's input and the factor between its pixels and the photograph's, by the steps that the file names. */
function prepare(pixels, steps) {
  if (steps.resize?.mode !== 'keep_ratio' || steps.crop || steps.letterbox)
    throw new Error('this page runs detectors that keep the aspect ratio');
  const limits = steps.resize.size, sides = [pixels.width, pixels.height];
  const factor = Math.min(Math.max(...limits) / Math.max(...sides), Math.min(...limits) / Math.min(...sides));
  const [width, height] = sides.map((side) => Math.floor(side * factor + 0.5));
  const { divisor = 1, value = 0 } = steps.pad ?? {};
  const [fullWidth, fullHeight] = [width, height].map((side) => Math.ceil(side / divisor) * divisor);
  const resized = resize(pixels, width, height);
  const input = new Float32Array(3 * fullWidth * fullHeight).fill(value);
  for (let c = 0; c < 3; c++) {
    const channel = steps.channels === 'bgr' ? 2 - c : c;
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++)
        input[(c * fullHeight + y) * fullWidth + x] = (resized[(y * width + x) * 3 + channel] - steps.mean[c]) / steps.std[c];
  }
  return { input, shape: [1, 3, fullHeight, fullWidth], valid: [height, width], scale: [width / sides[0], height / sides[1]] };
}

async function loadModel(source) {
  const ort = await import(`${ORT}ort.wasm.min.mjs`);
  ort.env.wasm.wasmPaths = ORT;
  ort.env.wasm.numThreads = 1; // more need headers that few web servers send
  const bytes = new Uint8Array(await source.arrayBuffer());
  const about = readMetadata(bytes);
  if (about['rebnn.task'] !== 'detection') throw new Error('this file is not a packed detector');
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
  const steps = JSON.parse(about['rebnn.preprocess']), names = JSON.parse(about['rebnn.classes']);
  return async (pixels) => {
    const { input, shape, valid, scale } = prepare(pixels, steps);
    const feeds = {
      image: new ort.Tensor('float32', input, shape),
      valid_size: new ort.Tensor('int64', BigInt64Array.from(valid, BigInt), [2]),
    };
    const { boxes, scores, labels } = await session.run(feeds);
    return Array.from(scores.data, (score, i) => ({
      name: names[Number(labels.data[i])],
      label: Number(labels.data[i]),
      score,
      box: Array.from(boxes.data.subarray(4 * i, 4 * i + 4), (side, j) => side / scale[j % 2]),
    }));
  };
}

function paint(context, photo, found) {
  context.drawImage(photo, 0, 0);
  const unit = Math.max(context.canvas.width, context.canvas.height) / 640;
  context.lineWidth = 2 * unit;
  context.font = `${13 * unit}px sans-serif`;
  for (const { name, label, score, box: [x1, y1, x2, y2] } of found) {
    context.strokeStyle = context.fillStyle = COLOURS[label % COLOURS.length];
    context.strokeRect(x1, y1, x2 - x1, y2 - y1);
    context.fillText(`${name} ${score.toFixed(2)}`, x1 + 2 * unit, y1 + 13 * unit);
  }
}

function start(root) {
  const part = (name) => root.querySelector(`[data-${name}]`);
  const [status, canvas, threshold] = ['status', 'canvas', 'threshold'].map(part);
  const link = (name) => document.querySelector(`a.${name}`).href;
  const fetched = async (url) => {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
    return answer.blob();
  };
  let model, modelFile, photo, found = [];

  const show = () => {
    const shown = found.filter(({ score }) => score >= threshold.valueAsNumber);
    paint(canvas.getContext('2d'), photo, shown);
    const counts = {};
    for (const { name } of shown) counts[name] = (counts[name] ?? 0) + 1;
    part('found').textContent = Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(', ') || 'nothing found';
    root.detail = shown; // for the test
  };
  const run = async () => {
    try {
      root.dataset.state = 'busy';
      photo ??= await createImageBitmap(await fetched(link('sample-photo')));
      status.textContent = 'Loading the model and onnxruntime-web (about 16 MB, once) …';
      model ??= await loadModel(modelFile ?? await fetched(link('zoo-model')));
      [canvas.width, canvas.height] = [photo.width, photo.height];
      const context = canvas.getContext('2d', { willReadFrequently: true });
      context.drawImage(photo, 0, 0);
      status.textContent = 'Computing …';
      await new Promise((done) => setTimeout(done, 30)); // let the browser show the line
      const begin = performance.now();
      found = await model(context.getImageData(0, 0, photo.width, photo.height));
      status.textContent = `${Math.round(performance.now() - begin)} ms in this browser, one thread.`;
      show();
      root.dataset.state = 'done';
    } catch (error) {
      status.textContent = `That did not work: ${error.message}`;
      root.dataset.state = 'failed';
    }
  };
  const take = async (file) => {
    if (file.name.endsWith('.onnx')) [model, modelFile] = [undefined, file];
    else {
      try {
        photo = await createImageBitmap(file, { imageOrientation: 'from-image' });
      } catch {
        status.textContent = `${file.name} is not an image that this browser reads.`;
        root.dataset.state = 'failed';
        return;
      }
    }
    await run();
  };
  part('run').addEventListener('click', run);
  part('file').addEventListener('change', (event) => event.target.files.length && take(event.target.files[0]));
  threshold.addEventListener('input', () => photo && show());
  root.addEventListener('dragover', (event) => event.preventDefault());
  root.addEventListener('drop', (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });
}

document.querySelectorAll('[data-detector]').forEach(start);
