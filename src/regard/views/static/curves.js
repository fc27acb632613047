// Lines with axes, a legend and bands, as an inline SVG.

const LINES = { light: ['#0060a8', '#c45a00', '#00785a', '#a0407e', '#5a5a5a', '#8a6d00', '#3f9bd6', '#7a3000'],
  dark: ['#6cb8f0', '#ffa24d', '#3fd0a0', '#e58cc4', '#c0c0c0', '#ecd24a', '#9ad2f5', '#e0a080'] };
const DASHES = ['', '6 3', '2 3', '8 3 2 3'];

function ticks(low, high, log) {
  if (log) {
    const found = [];
    for (let power = Math.floor(Math.log10(low) + 1e-9); power <= Math.log10(high) + 1e-9; power++) found.push(10 ** power);
    const inside = found.filter(value => value >= low * 0.999 && value <= high * 1.001);
    if (inside.length >= 2) { const by = Math.ceil(inside.length / 7); return inside.filter((_, i) => i % by === 0); }
    return ticks(low, high, false).filter(value => value > 0);
  }
  const rough = (high - low) / 5, base = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].map(x => x * base).find(x => x >= rough) || base;
  const found = [];
  for (let i = Math.ceil(low / size - 1e-9); i * size <= high + size * 1e-9; i++) found.push(i * size);
  return found;
}

function drawCurves(panel, box) {
  const names = [...new Set([...Object.keys(panel.series), ...Object.keys(panel.bands)])];
  const state = { x: panel.log_x, y: panel.log_y };
  const usable = (value, log) => Number.isFinite(value) && value !== null && (!log || value > 0);
  const figure = make('div', { class: 'curves' });
  const allPositive = axis => [...Object.values(panel.series), ...Object.values(panel.bands)].flat().every(point =>
    point.slice(axis, axis ? undefined : 1).every(value => value === null || value > 0));
  const toggle = (axis, text) => make('label', { class: 'check' }, make('input', {
    type: 'checkbox', checked: Boolean(state[axis]), onchange: event => { state[axis] = event.target.checked; draw(); } }), text);
  const switches = [...(panel.log_x || allPositive(0) ? [toggle('x', 'log x')] : []), ...(panel.log_y || allPositive(1) ? [toggle('y', 'log y')] : [])];
  const colour = (i, paper) => LINES[!paper && darkMode.matches ? 'dark' : 'light'][i % 8];
  const dash = i => DASHES[Math.floor(i / 8) % 4];

  function plot(width, paper) {
    const height = clamp(width * 0.48, 240, 400), left = 62, bottom = 46, top = 12, right = 16;
    const ink = paper ? '#333' : css('--soft'), line = paper ? '#ddd' : css('--line');
    const points = name => (panel.series[name] || []).filter(([x, y]) => usable(x, state.x) && usable(y, state.y));
    const band = name => (panel.bands[name] || []).filter(([x, low, high]) => usable(x, state.x) && usable(low, state.y) && usable(high, state.y));
    const xs = names.flatMap(name => [...points(name), ...band(name)].map(point => point[0]));
    const ys = names.flatMap(name => [...points(name).map(point => point[1]), ...band(name).flatMap(point => [point[1], point[2]])]);
    const range = (values, log) => {
      let low = Infinity, high = -Infinity;
      for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
      if (!values.length) return [log ? 0.1 : 0, 1];
      if (low === high) return log ? [low / 2, high * 2] : [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2];
      return [low, high];
    };
    const [x0, x1] = range(xs, state.x);
    let [y0, y1] = range(ys, state.y);
    if (!state.y) { const edge = (y1 - y0) * 0.05; if (!(y0 === 0)) y0 -= edge; y1 += edge; }
    const place = (value, low, high, log) => log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    const px = value => left + place(value, x0, x1, state.x) * (width - left - right);
    const py = value => height - bottom - place(value, y0, y1, state.y) * (height - bottom - top);
    const svg = paper ? sheet(width, height + 28 + 18 * names.length, panel.name)
      : shape('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${panel.name}: ${panel.y} against ${panel.x}` });
    const text = (words, attributes) => write(svg, words, { fill: ink, 'font-size': 12, ...attributes });
    for (const value of ticks(y0, y1, state.y)) {
      svg.append(shape('line', { x1: left, x2: width - right, y1: py(value), y2: py(value), stroke: line }));
      text(number(value), { x: left - 8, y: py(value) + 4, 'text-anchor': 'end' });
    }
    for (const value of ticks(x0, x1, state.x)) {
      svg.append(shape('line', { x1: px(value), x2: px(value), y1: height - bottom, y2: height - bottom + 4, stroke: ink }));
      text(number(value), { x: px(value), y: height - bottom + 18, 'text-anchor': 'middle' });
    }
    svg.append(shape('line', { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, stroke: ink }));
    text(panel.x, { x: (left + width - right) / 2, y: height - 8, 'text-anchor': 'middle' });
    text(panel.y, { transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle' });
    names.forEach((name, i) => {
      const area = band(name);
      if (area.length) {
        const outline = [...area.map(([x, , high]) => [x, high]), ...area.map(([x, low]) => [x, low]).reverse()];
        svg.append(shape('polygon', { points: outline.map(([x, y]) => `${px(x).toFixed(2)},${py(y).toFixed(2)}`).join(' '), fill: colour(i, paper), opacity: 0.16 }));
      }
    });
    names.forEach((name, i) => {
      const dots = points(name);
      svg.append(shape('polyline', { points: dots.map(([x, y]) => `${px(x).toFixed(2)},${py(y).toFixed(2)}`).join(' '), fill: 'none', stroke: colour(i, paper), 'stroke-width': 2, 'stroke-linejoin': 'round', 'stroke-dasharray': dash(i) }));
      if (dots.length <= 40) for (const [x, y] of dots) svg.append(shape('circle', { cx: px(x), cy: py(y), r: 2.6, fill: colour(i, paper) }));
    });
    if (paper) names.forEach((name, i) => {
      svg.append(shape('line', { x1: left, x2: left + 22, y1: height + 16 + 18 * i, y2: height + 16 + 18 * i, stroke: colour(i, true), 'stroke-width': 2, 'stroke-dasharray': dash(i) }));
      text(name, { x: left + 30, y: height + 20 + 18 * i });
    });
    else svg.addEventListener('pointermove', event => {
      const area = svg.getBoundingClientRect(), x = event.clientX - area.left, y = event.clientY - area.top;
      let best = null;
      names.forEach(name => points(name).forEach(point => {
        const far = Math.hypot(px(point[0]) - x, py(point[1]) - y);
        if (far < 36 && (!best || far < best.far)) best = { far, name, point };
      }));
      if (best) tip(event, [[[best.name, 'token']], [`${panel.x} ${number(best.point[0], 6)}`], [[`${panel.y} ${number(best.point[1], 6)}`, 'value']]], best.point[1]);
      else hideTip();
    });
    svg.addEventListener('pointerleave', hideTip);
    return svg;
  }

  const key = make('ul', { class: 'lines' });
  function draw() {
    const width = figure.clientWidth;
    if (!width) return;
    figure.replaceChildren(plot(width, false));
    key.replaceChildren(...names.map((name, i) => make('li', {}, shape('svg', { width: 22, height: 10, 'aria-hidden': 'true' },
      shape('line', { x1: 0, x2: 22, y1: 5, y2: 5, stroke: colour(i), 'stroke-width': 3, 'stroke-dasharray': dash(i) })), make('bdi', {}, name))));
  }
  box.append(figure, make('div', { class: 'row' }, key, ...switches, exportButton(() => download(plot(760, true), panel.name))));
  let drawn = 0;
  new ResizeObserver(() => { if (figure.clientWidth !== drawn) { drawn = figure.clientWidth; draw(); } }).observe(figure);
  darkMode.addEventListener('change', draw);
}
