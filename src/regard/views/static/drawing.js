// Shared by all drawings: elements, numbers, colours, the tooltip, files. Foreign text is only ever inserted as text.

const model = JSON.parse(document.getElementById('model').textContent);
const SVG = 'http://www.w3.org/2000/svg';
const darkMode = matchMedia('(prefers-color-scheme: dark)');

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'class') element.className = value;
    else if (key in element && typeof value !== 'string') element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function shape(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// A number with its significant digits.
function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  const far = size !== 0 && (size >= 1e6 || size < 1e-4);
  const text = far ? value.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e') : String(Number(value.toPrecision(digits)));
  return text.replace(/-/g, '−');
}

// 256 colours between the points of a scale, as red, green, blue.
function ramp(points) {
  const table = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) {
    const place = i / 255 * (points.length - 1);
    const low = Math.min(Math.floor(place), points.length - 2);
    for (let c = 0; c < 3; c++) table[3 * i + c] = points[low][c] + (points[low + 1][c] - points[low][c]) * (place - low);
  }
  return table;
}

const RAMPS = {
  sequential: ramp(model.scales.sequential),
  light: ramp(model.scales.light),
  dark: ramp(model.scales.dark),
};
const rampFor = diverging => diverging ? RAMPS[darkMode.matches ? 'dark' : 'light'] : RAMPS.sequential;

// The position of a value between the ends, as one of 256 steps; −1 if it is missing.
function step(value, ends) {
  if (!Number.isFinite(value)) return -1;
  return clamp(Math.round((value - ends[0]) / (ends[1] - ends[0]) * 255), 0, 255);
}

function colourOf(value, ends, table) {
  const i = step(value, ends);
  return i < 0 ? [128, 128, 128] : [table[3 * i], table[3 * i + 1], table[3 * i + 2]];
}

const rgb = colour => `rgb(${colour.map(Math.round).join(',')})`;
// The text colour with the better contrast.
function inkOn(colour) {
  const [r, g, b] = colour.map(part => (part / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.19 ? '#fff' : '#111';
}

// The values at the two ends of the scale: symmetric about zero if the sign matters, else from min(0, lowest).
function limits(values, diverging) {
  let low = 0, high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (high === -Infinity) high = 0;
  if (diverging) { high = Math.max(-low, high) || 1; return [-high, high]; }
  return [low, high > low ? high : low + 1];
}

// The colour bar.
function legend(ends, diverging, text = false) {
  const bar = make('canvas', { width: 128, height: 1, class: 'bar', 'aria-hidden': 'true' });
  const pen = bar.getContext('2d');
  for (let x = 0; x < 128; x++) {
    const value = ends[0] + (ends[1] - ends[0]) * x / 127;
    pen.fillStyle = text ? tint(value, ends, diverging).css : rgb(colourOf(value, ends, rampFor(diverging)));
    pen.fillRect(x, 0, 1, 1);
  }
  const middle = diverging ? [make('span', {}, '0')] : [];
  const numbers = make('span', { class: 'ends' }, make('span', {}, number(ends[0], 3)), ...middle, make('span', {}, number(ends[1], 3)));
  return make('div', { class: 'legend', role: 'img', 'aria-label': `colours from ${number(ends[0], 3)} to ${number(ends[1], 3)}` }, bar, numbers);
}

// The colour behind a word: none at zero, full at the ends.
function tint(value, ends, diverging, dark = darkMode.matches) {
  if (!Number.isFinite(value)) return { css: 'transparent', ink: dark ? '#eee' : '#111' };
  const base = diverging ? 0 : ends[0];
  const top = value < base ? base - ends[0] : ends[1] - base;
  const part = clamp(Math.abs(value - base) / (top || 1), 0, 1);
  const paper = dark ? [26, 28, 32] : [255, 255, 255];
  const full = value < base ? (dark ? [110, 182, 245] : [20, 92, 168]) : diverging ? (dark ? [255, 160, 70] : [212, 98, 10]) : (dark ? [244, 216, 70] : [0, 50, 110]);
  const colour = full.map((c, i) => paper[i] + (c - paper[i]) * part);
  return { css: rgb(colour), ink: inkOn(colour) };
}

// One tooltip for the whole page. `lines` are lists of text pieces; a piece [text, class] is styled.
const tipBox = document.getElementById('tip');
function tip(event, lines, value) {
  tipBox.replaceChildren(...lines.map(line => make('div', {}, ...line.map(piece =>
    Array.isArray(piece) ? make('bdi', { class: piece[1] }, piece[0]) : make('span', {}, piece)))));
  tipBox.dataset.value = String(value);
  tipBox.hidden = false;
  const box = tipBox.getBoundingClientRect();
  const x = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 16;
  const y = event.clientY + 20 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 20;
  tipBox.style.left = `${Math.max(4, x)}px`;
  tipBox.style.top = `${Math.max(4, y)}px`;
}
function hideTip() { tipBox.hidden = true; }
addEventListener('scroll', hideTip, { passive: true });

const short = (label, longest = 18) => {
  const signs = [...label];
  return signs.length > longest ? signs.slice(0, longest - 1).join('') + '…' : label;
};

function download(svg, name) {
  svg.setAttribute('xmlns', SVG);
  const text = '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(svg);
  const address = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }));
  const link = make('a', { href: address, download: name.replace(/[^\p{L}\p{N}._-]+/gu, '_').slice(0, 80) + '.svg' });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const exportButton = action => make('button', { type: 'button', class: 'quiet export', onclick: action }, 'Export SVG');

// A sheet for export: dark on white, whatever the mode of the screen.
function sheet(width, height, title) {
  const paper = shape('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'font-family': 'system-ui, sans-serif', 'font-size': 11 });
  const caption = shape('title');
  caption.textContent = title;
  paper.append(caption, shape('rect', { width, height, fill: '#fff' }));
  return paper;
}

function write(paper, text, attributes) {
  const element = shape('text', { fill: '#222', ...attributes });
  element.textContent = text;
  paper.append(element);
}
