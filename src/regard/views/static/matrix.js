// A matrix as a heat map: one canvas, redrawn at each size, with zoom and labels that follow.

const FONT = '12px system-ui, sans-serif';
const ruler = document.createElement('canvas').getContext('2d');

function widest(labels, longest) {
  ruler.font = FONT;
  let found = 0;
  for (const label of new Set(labels)) found = Math.max(found, ruler.measureText(short(label, longest)).width);
  return Math.min(Math.ceil(found), 130);
}

class HeatMap {
  // `grid`: rows, columns (labels), values (flat), diverging, ends, error (the largest error of a value)
  constructor(box, { onPick = () => {}, label = 'heat map' } = {}) {
    this.canvas = make('canvas', { class: 'heat', tabindex: '0', role: 'img', 'aria-label': label });
    this.zoomer = make('div', { class: 'zoom', hidden: true },
      make('button', { type: 'button', 'aria-label': 'larger', onclick: () => this.zoomBy(2) }, '+'),
      make('button', { type: 'button', 'aria-label': 'smaller', onclick: () => this.zoomBy(0.5) }, '−'),
      make('button', { type: 'button', 'aria-label': 'the whole matrix', onclick: () => this.zoomBy(0) }, 'fit'));
    this.said = make('p', { class: 'said', 'aria-live': 'polite' });
    this.box = make('div', { class: 'heat-box' }, this.canvas);
    box.append(this.box, make('div', { class: 'under' }, this.said, this.zoomer));
    this.onPick = onPick;
    this.zoom = 1; this.x = 0; this.y = 0; this.cell = null;
    this.listen();
    new ResizeObserver(() => { if (this.box.clientWidth !== this.width) this.draw(); }).observe(this.box);
    darkMode.addEventListener('change', () => { this.paint(); this.draw(); });
  }

  show(grid) {
    const before = this.grid;
    this.grid = grid;
    if (!before || before.rows !== grid.rows || before.columns !== grid.columns) {
      this.zoom = 1; this.x = 0; this.y = 0; this.cell = null; this.said.textContent = '';
    } else if (this.cell) this.say();
    this.paint();
    this.draw();
  }

  // One pixel per cell, scaled when drawn.
  paint() {
    const { rows, columns, values, ends, diverging } = this.grid;
    this.pixels = make('canvas', { width: Math.max(columns.length, 1), height: Math.max(rows.length, 1) });
    const pen = this.pixels.getContext('2d');
    const image = pen.createImageData(this.pixels.width, this.pixels.height);
    const bytes = image.data, table = rampFor(diverging);
    for (let i = 0; i < values.length; i++) {
      const at = step(values[i], ends);
      if (at < 0) { bytes[4 * i + 3] = 0; continue; }
      bytes[4 * i] = table[3 * at]; bytes[4 * i + 1] = table[3 * at + 1]; bytes[4 * i + 2] = table[3 * at + 2]; bytes[4 * i + 3] = 255;
    }
    pen.putImageData(image, 0, 0);
  }

  // Sizes of cells and window for the available width.
  measure() {
    const { rows, columns } = this.grid;
    this.width = this.box.clientWidth;
    this.longest = this.width < 560 ? [10, 10] : [18, 14];
    if (this.measured !== this.grid.rows || this.measuredFor !== this.width) {
      this.measured = this.grid.rows; this.measuredFor = this.width;
      this.gutter = widest(rows, this.longest[0]) + 10;
      this.tall = widest(columns, this.longest[1]);
    }
    const right = Math.ceil(this.tall * 0.55) + 4;
    this.top = Math.ceil(this.tall * 0.84) + 14;
    const room = Math.max(60, this.width - this.gutter - right);
    const high = Math.max(innerHeight * 0.82 - this.top, 640);
    const few = columns.length <= 16;
    this.fitX = Math.min(room / columns.length, few ? 46 : 28);
    const most = Math.max(high / rows.length, 0.5);
    this.fitY = most < 13 ? Math.min(this.fitX, most) : Math.min(clamp(this.fitX, 14, 28), most);
    if (this.grid.square) this.fitX = this.fitY = Math.min(this.fitX, most);
    this.wide = columns.length * this.fitX;
    this.high = rows.length * this.fitY;
    this.zoomer.hidden = this.fitX >= 12 && this.fitY >= 11;
    this.x = clamp(this.x, 0, columns.length * (1 - 1 / this.zoom));
    this.y = clamp(this.y, 0, rows.length * (1 - 1 / this.zoom));
  }

  draw() {
    if (!this.grid || !this.grid.rows.length || !this.grid.columns.length || !this.box.clientWidth) return;
    this.measure();
    const ratio = devicePixelRatio || 1;
    const height = this.top + this.high + 2, width = this.width;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.imageSmoothingEnabled = this.fitX * this.zoom * ratio < 1;
    pen.fillStyle = css('--missing');
    pen.fillRect(this.gutter, this.top, this.wide, this.high);
    pen.drawImage(this.pixels, this.x, this.y, this.grid.columns.length / this.zoom, this.grid.rows.length / this.zoom,
      this.gutter, this.top, this.wide, this.high);
    this.drawLabels(pen);
    this.drawNumbers(pen);
    this.drawCell(pen);
  }

  drawLabels(pen) {
    const { rows, columns } = this.grid, cx = this.fitX * this.zoom, cy = this.fitY * this.zoom;
    pen.font = FONT;
    pen.textBaseline = 'middle';
    const mark = (i, axis) => this.cell && this.cell[axis] === i ? css('--ink') : css('--soft');
    pen.textAlign = 'right';
    for (let i = Math.floor(this.y), by = Math.ceil(14 / cy - 0.1); i < rows.length; i++) {
      const y = this.top + (i + 0.5 - this.y) * cy;
      if (i % by || y < this.top || y > this.top + this.high) continue;
      pen.fillStyle = mark(i, 0);
      pen.fillText(short(rows[i], this.longest[0]), this.gutter - 7, y, this.gutter - 8);
    }
    pen.textAlign = 'left';
    for (let j = Math.floor(this.x), by = Math.ceil(15 / cx - 0.1); j < columns.length; j++) {
      const x = this.gutter + (j + 0.5 - this.x) * cx;
      if (j % by || x < this.gutter || x > this.gutter + this.wide) continue;
      pen.save();
      pen.translate(x, this.top - 7);
      pen.rotate(-Math.PI / 3.2);
      pen.fillStyle = mark(j, 1);
      pen.fillText(short(columns[j], this.longest[1]), 0, 0, this.tall + 2);
      pen.restore();
    }
  }

  // Wide cells show the numbers.
  drawNumbers(pen) {
    const { rows, columns, values, ends, diverging } = this.grid, cx = this.fitX * this.zoom, cy = this.fitY * this.zoom;
    if (cx < 36 || cy < 17) return;
    pen.font = '11px system-ui, sans-serif';
    pen.textAlign = 'center';
    const table = rampFor(diverging);
    for (let i = Math.floor(this.y); i < Math.min(rows.length, this.y + this.high / cy); i++) {
      for (let j = Math.floor(this.x); j < Math.min(columns.length, this.x + this.wide / cx); j++) {
        const value = values[i * columns.length + j];
        const x = this.gutter + (j + 0.5 - this.x) * cx, y = this.top + (i + 0.5 - this.y) * cy;
        if (x < this.gutter + 12 || y < this.top + 6 || x > this.gutter + this.wide - 12 || y > this.top + this.high - 6) continue;
        pen.fillStyle = inkOn(colourOf(value, ends, table));
        pen.fillText(number(value, Math.abs(value) < 0.1 ? 1 : 2), x, y + 0.5, cx - 4);
      }
    }
  }

  drawCell(pen) {
    if (!this.cell) return;
    const cx = this.fitX * this.zoom, cy = this.fitY * this.zoom;
    const x = this.gutter + (this.cell[1] - this.x) * cx, y = this.top + (this.cell[0] - this.y) * cy;
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter - 1, this.top - 1, this.wide + 2, this.high + 2);
    pen.clip();
    pen.lineWidth = 1;
    pen.strokeStyle = 'rgba(255,255,255,.5)';
    pen.strokeRect(this.gutter, y, this.wide, cy);
    pen.strokeRect(x, this.top, cx, this.high);
    pen.lineWidth = 2;
    pen.strokeStyle = '#111';
    pen.strokeRect(x - 1, y - 1, cx + 2, cy + 2);
    pen.strokeStyle = '#fff';
    pen.strokeRect(x, y, cx, cy);
    pen.restore();
  }

  // The cell under the pointer; −1 for row or column means a label.
  find(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const i = Math.floor((y - this.top) / (this.fitY * this.zoom) + this.y);
    const j = Math.floor((x - this.gutter) / (this.fitX * this.zoom) + this.x);
    const inRows = y >= this.top && y < this.top + this.high && i >= 0 && i < this.grid.rows.length;
    const inColumns = x >= this.gutter && x < this.gutter + this.wide && j >= 0 && j < this.grid.columns.length;
    return inRows && inColumns ? [i, j] : inRows && x < this.gutter ? [i, -1] : inColumns && y < this.top ? [-1, j] : null;
  }

  listen() {
    let held = null;
    this.canvas.addEventListener('pointermove', event => {
      if (!this.grid) return;
      if (held) {
        this.x = held.x - (event.clientX - held.clientX) / (this.fitX * this.zoom);
        this.y = held.y - (event.clientY - held.clientY) / (this.fitY * this.zoom);
        held.moved ||= Math.hypot(event.clientX - held.clientX, event.clientY - held.clientY) > 4;
        if (held.moved) { hideTip(); this.draw(); return; }
      }
      const at = this.find(event);
      if (!at || at[0] < 0 || at[1] < 0) { hideTip(); if (this.cell) { this.cell = null; this.draw(); } return; }
      if (!this.cell || this.cell[0] !== at[0] || this.cell[1] !== at[1]) { this.cell = at; this.draw(); }
      const [row, column, value] = this.spoken();
      tip(event, [[[row, 'token'], ' → ', [column, 'token']], [[value, 'value']]], this.value());
    });
    this.canvas.addEventListener('pointerleave', () => { hideTip(); held = null; this.cell = null; this.draw(); });
    this.canvas.addEventListener('pointerdown', event => {
      if (this.zoom > 1) { held = { clientX: event.clientX, clientY: event.clientY, x: this.x, y: this.y, moved: false }; }
    });
    addEventListener('pointerup', () => setTimeout(() => { held = null; }));
    this.canvas.addEventListener('click', event => {
      const at = this.find(event);
      if (at && !(held && held.moved)) this.onPick(at);
    });
    this.canvas.addEventListener('wheel', event => {
      if (!event.ctrlKey || this.zoomer.hidden) return;
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1.25 : 0.8, this.find(event));
    }, { passive: false });
    this.canvas.addEventListener('keydown', event => {
      const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!by || !event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      const [i, j] = this.cell || [0, 0];
      this.cell = [clamp(i + by[0], 0, this.grid.rows.length - 1), clamp(j + by[1], 0, this.grid.columns.length - 1)];
      const wide = this.grid.columns.length / this.zoom, high = this.grid.rows.length / this.zoom;
      this.y = clamp(this.y, this.cell[0] + 1 - high, this.cell[0]);
      this.x = clamp(this.x, this.cell[1] + 1 - wide, this.cell[1]);
      this.draw();
      this.say();
    });
  }

  zoomBy(factor, about = null) {
    const { rows, columns } = this.grid;
    const before = this.zoom;
    this.zoom = factor ? clamp(before * factor, 1, Math.max(1, 28 / Math.min(this.fitX, this.fitY))) : 1;
    const [i, j] = about || [this.y + rows.length / before / 2, this.x + columns.length / before / 2];
    this.y = i - (i - this.y) * before / this.zoom;
    this.x = j - (j - this.x) * before / this.zoom;
    this.draw();
  }

  value() { return this.grid.values[this.cell[0] * this.grid.columns.length + this.cell[1]]; }

  spoken() {
    const off = this.grid.error ? ` ± ${number(this.grid.error, 1)}` : '';
    return [this.grid.rows[this.cell[0]], this.grid.columns[this.cell[1]], number(this.value(), this.grid.error ? 3 : 6) + off];
  }

  say() { const [row, column, value] = this.spoken(); this.said.replaceChildren(make('bdi', {}, row), ' → ', make('bdi', {}, column), ': ', value); }

  svg(title) { return matrixSheet(this.grid, title); }
}

// A matrix on paper, with every label; above 4096 cells the cells are an image.
function matrixSheet({ rows, columns, values, ends, diverging }, title) {
  const cell = Math.max(rows.length, columns.length) > 96 ? 8 : 16, size = Math.min(11, cell - 1);
  const share = size / 12, left = widest(rows, 18) * share + 14, tall = widest(columns, 14) * share;
  const top = 30 + tall * 0.84 + 8, wide = columns.length * cell, high = rows.length * cell;
  const paper = sheet(Math.ceil(Math.max(left + wide + tall * 0.6 + 12, 320)), Math.ceil(top + high + 48), title);
  const table = diverging ? RAMPS.light : RAMPS.sequential;
  write(paper, title, { x: 12, y: 20, 'font-size': 13 });
  if (values.length > 4096) {
    const image = make('canvas', { width: columns.length, height: rows.length });
    const pen = image.getContext('2d'), pixels = pen.createImageData(columns.length, rows.length);
    for (let i = 0; i < values.length; i++) pixels.data.set([...colourOf(values[i], ends, table), 255], 4 * i);
    pen.putImageData(pixels, 0, 0);
    paper.append(shape('image', { x: left, y: top, width: wide, height: high, preserveAspectRatio: 'none', 'image-rendering': 'pixelated', href: image.toDataURL('image/png') }));
  } else {
    for (let i = 0; i < values.length; i++) {
      const x = left + (i % columns.length) * cell, y = top + Math.floor(i / columns.length) * cell;
      paper.append(shape('rect', { x, y, width: cell, height: cell, fill: rgb(colourOf(values[i], ends, table)) }));
    }
  }
  rows.forEach((label, i) => write(paper, short(label, 18), { x: left - 5, y: top + (i + 0.5) * cell, 'text-anchor': 'end', 'dominant-baseline': 'central', 'font-size': size }));
  columns.forEach((label, j) => write(paper, short(label, 14), { transform: `translate(${left + (j + 0.5) * cell} ${top - 5}) rotate(-56)`, 'dominant-baseline': 'central', 'font-size': size }));
  paperLegend(paper, left, top + high + 14, value => rgb(colourOf(value, ends, table)), ends);
  return paper;
}

function paperLegend(paper, x, y, colour, ends) {
  for (let i = 0; i < 60; i++) paper.append(shape('rect', { x: x + 2 * i, y, width: 2.2, height: 8, fill: colour(ends[0] + (ends[1] - ends[0]) * i / 59) }));
  write(paper, number(ends[0], 3), { x, y: y + 21 });
  write(paper, number(ends[1], 3), { x: x + 120, y: y + 21, 'text-anchor': 'end' });
}

function drawMatrix(panel, box) {
  const values = Float64Array.from(panel.values.flat(), value => value === null ? NaN : value);
  const ends = limits(values, panel.diverging);
  const map = new HeatMap(box, { label: `${panel.name}: ${panel.rows.length} rows, ${panel.columns.length} columns` });
  const key = make('div', { class: 'row' });
  const redraw = () => key.replaceChildren(legend(ends, panel.diverging), exportButton(() => download(map.svg(panel.name), panel.name)));
  box.append(key);
  redraw();
  darkMode.addEventListener('change', redraw);
  map.show({ ...panel, values, ends, error: 0 });
}
