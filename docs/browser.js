// Runs a packed file in the browser by librebnn as WebAssembly: a photograph in, painted boxes or classes out. See
// browser.md. rebnn.js and rebnn.wasm are from tools/build_wasm.sh.
import { loadRuntime } from './rebnn.js';

const COLOURS = ['#e6194b', '#0082c8', '#3cb44b', '#f58231', '#911eb4', '#008080'];
const MOST_CLASSES = 5;

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

function countNames(found) {
  const counts = {};
  for (const { name } of found) counts[name] = (counts[name] ?? 0) + 1;
  return Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(', ') || 'nothing found';
}

function start(root) {
  const part = (name) => root.querySelector(`[data-${name}]`);
  const [status, canvas, threshold, side] = ['status', 'canvas', 'threshold', 'side'].map(part);
  const link = (name) => document.querySelector(`a.${name}`).href;
  const fetched = async (url) => {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
    return answer.blob();
  };
  let runtime, model, modelFile, photo, found = [];

  const show = () => {
    const isDetector = model.task === 'detection';
    const shown = isDetector ? found.filter(({ score }) => score >= threshold.valueAsNumber) : found.slice(0, MOST_CLASSES);
    paint(canvas.getContext('2d'), photo, isDetector ? shown : []);
    part('found').textContent = isDetector ? countNames(shown) : shown.map(({ name, score }) => `${name} ${score.toFixed(2)}`).join(', ');
    root.detail = shown; // for the test
  };
  const run = async () => {
    try {
      root.dataset.state = 'busy';
      status.textContent = 'Loading …';
      photo ??= await createImageBitmap(await fetched(link('sample-photo')));
      runtime ??= await loadRuntime();
      if (!model) {
        const bytes = new Uint8Array(await (modelFile ?? await fetched(link('zoo-model'))).arrayBuffer());
        model = runtime.load(bytes, side.value ? [side.valueAsNumber, side.valueAsNumber] : undefined);
      }
      [canvas.width, canvas.height] = [photo.width, photo.height];
      const context = canvas.getContext('2d', { willReadFrequently: true });
      context.drawImage(photo, 0, 0);
      const pixels = context.getImageData(0, 0, photo.width, photo.height);
      status.textContent = 'Computing …';
      await new Promise((done) => setTimeout(done, 30)); // let the browser show the line
      const begin = performance.now();
      found = model.run(pixels);
      status.textContent = `${Math.round(performance.now() - begin)} ms in this browser, one thread.`;
      show();
      root.dataset.state = 'done';
    } catch (error) {
      status.textContent = `That did not work: ${error.message}`;
      root.dataset.state = 'failed';
    }
  };
  const dropModel = () => {
    model?.free();
    model = undefined;
  };
  const take = async (file) => {
    if (file.name.endsWith('.onnx')) {
      dropModel();
      modelFile = file;
    } else {
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
  threshold.addEventListener('input', () => photo && model && show());
  side.addEventListener('change', () => {
    dropModel();
    if (photo) run();
  });
  root.addEventListener('dragover', (event) => event.preventDefault());
  root.addEventListener('drop', (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });
}

document.querySelectorAll('[data-detector]').forEach(start);
