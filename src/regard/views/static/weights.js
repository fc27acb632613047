// Weights of single heads, unpacked when they are shown; the last few are kept.

const KEPT = 24;
const unpacked = new Map();
const parsed = new Promise(done => document.readyState === 'loading' ? addEventListener('DOMContentLoaded', done) : done());

async function block(id) {
  let element = document.getElementById(id);
  // The last element may still be incomplete while the file is being read.
  if (!element || !element.nextElementSibling) { await parsed; element = document.getElementById(id); }
  return element.textContent;
}

async function unpack(id, { form, scale }) {
  const text = atob(await block(id));
  const bytes = Uint8Array.from(text, sign => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  const raw = await new Response(stream).arrayBuffer();
  if (form === 'f32') return new Float32Array(raw);
  const steps = form === 'u8' ? new Uint8Array(raw) : new Int8Array(raw);
  const values = new Float32Array(steps.length);
  for (let i = 0; i < steps.length; i++) values[i] = form === 'i8' && steps[i] === -128 ? NaN : steps[i] * scale;
  return values;
}

function weights(site, kind, head, facts) {
  const id = `w-${site}-${kind}-${head}`;
  const found = unpacked.get(id) || unpack(id, facts);
  unpacked.delete(id);
  unpacked.set(id, found);
  if (unpacked.size > KEPT) unpacked.delete(unpacked.keys().next().value);
  return found;
}
