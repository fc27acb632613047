// An overview of all heads, and one head at a time: as a matrix, or as a text where a word shows what it attends to.

function drawExplorer(box) {
  const { kinds, sites, texts, exact } = model.heads;
  const signed = Object.fromEntries(kinds.map(kind => [kind, sites.some(site => (site.kinds[kind]?.heads || []).some(head => head.signed))]));
  const peaks = Object.fromEntries(kinds.map(kind => [kind, Math.max(0, ...sites.flatMap(site => (site.kinds[kind]?.heads || []).map(head => head.peak)))]));
  const state = { site: 0, kind: kinds.find(kind => sites[0].kinds[kind]) || kinds[0], head: 0, view: 'matrix', same: false, row: 0, column: null };
  const current = () => sites[state.site].kinds[state.kind];
  const rows = () => texts[sites[state.site].rows], columns = () => texts[sites[state.site].columns];
  const oneText = () => sites[state.site].rows === sites[state.site].columns;
  const shownHead = () => Math.min(state.head, current().heads.length - 1);
  const headName = (kind, head) => kind.heads.length === 1 ? 'all heads' : kind.mean && head === kind.heads.length - 1 ? 'mean of heads' : `head ${head}`;
  const title = () => `${sites[state.site].name}, ${headName(current(), shownHead())}, ${state.kind}`;

  // Controls
  const group = (name, choices, picked, pick) => make('div', { class: 'group', role: 'group', 'aria-label': name },
    ...choices.map(choice => make('button', { type: 'button', 'data-choice': choice, 'aria-pressed': String(choice === picked), onclick: () => pick(choice) }, choice)));
  const press = (element, choice) => element.querySelectorAll('button').forEach(button => button.setAttribute('aria-pressed', String(button.dataset.choice === choice)));
  const kindGroup = group('kind of weight', kinds, state.kind, kind => { state.kind = kind; show(true); });
  const viewGroup = group('view', ['matrix', 'text'], state.view, view => { state.view = view; show(); });
  const siteChoice = make('select', { id: 'site', onchange: () => { go(siteChoice.selectedIndex, state.head); } }, ...sites.map(site => make('option', {}, site.name)));
  const headChoice = make('select', { id: 'head', onchange: () => { go(state.site, headChoice.selectedIndex); } });
  const same = make('input', { type: 'checkbox', onchange: () => { state.same = same.checked; show(); } });
  const heading = make('h3', { class: 'shown', 'aria-live': 'polite' });
  const key = make('div', { class: 'key' });
  const matrixBox = make('div', { class: 'view matrix' }), textBox = make('div', { class: 'view text', hidden: true });
  const map = new HeatMap(matrixBox, { label: 'attention weights, rows look at columns', onPick: ([i, j]) => {
    state.row = i < 0 ? null : i;
    state.column = j < 0 || i >= 0 ? null : j;
    state.view = 'text';
    show();
  } });
  const grid = make('div', { class: 'overview', role: 'group', 'aria-label': 'all heads' });
  const accuracy = exact ? 'Weights are stored in full.' : 'Weights are stored in 8 bits: each is within 1/255 of its head’s largest.';
  box.tabIndex = -1;
  box.append(
    make('h2', {}, 'Attention'),
    make('div', { class: 'controls' },
      kindGroup,
      make('label', {}, make('span', {}, 'site'), siteChoice), make('label', {}, make('span', {}, 'head'), headChoice),
      viewGroup, make('label', { class: 'check' }, same, 'one scale for all heads'),
      exportButton(() => exportShown())),
    make('div', { class: 'split' },
      make('div', { class: 'side' }, grid),
      make('div', { class: 'stage' }, make('div', { class: 'row top' }, heading, key), matrixBox, textBox)),
    make('p', { class: 'note' }, `Rows look at columns. In the overview each head has its own scale. ${accuracy} `,
      make('span', { class: 'keys' }, make('kbd', {}, '←'), make('kbd', {}, '→'), ' head  ', make('kbd', {}, '↑'), make('kbd', {}, '↓'), ' site  ',
        make('kbd', {}, 'Shift'), ' with arrows: cell or word. A click on a cell or a label shows the text.')));

  // Overview: a small picture of each head
  let thumbs = new Map();
  function overview() {
    thumbs = new Map();
    const most = Math.max(...sites.map(site => site.kinds[state.kind]?.heads.length || 0));
    grid.style.setProperty('--heads', most);
    const lines = sites.flatMap((site, s) => {
      const kind = site.kinds[state.kind];
      const cells = [make('span', { class: 'site', title: site.name }, make('bdi', {}, site.name))];
      const bytes = kind ? Uint8Array.from(atob(kind.small.text), sign => sign.charCodeAt(0)) : null;
      for (let h = 0; h < most; h++) {
        if (!kind || h >= kind.heads.length) { cells.push(make('span', {})); continue; }
        const canvas = thumbnail(new Int8Array(bytes.buffer), kind.small, h, signed[state.kind]);
        const button = make('button', { type: 'button', class: 'thumb', tabindex: '-1', 'aria-label': `${site.name}, ${headName(kind, h)}`, title: `${site.name}, ${headName(kind, h)}`, onclick: () => go(s, h) }, canvas);
        thumbs.set(`${s}-${h}`, button);
        cells.push(button);
      }
      return cells;
    });
    const sample = sites.map(site => site.kinds[state.kind]).find(kind => kind && kind.heads.length === most);
    const names = Array.from({ length: most }, (_, h) => make('span', { class: 'number' }, most === 1 ? 'all' : sample.mean && h === most - 1 ? 'mean' : String(h)));
    grid.replaceChildren(make('span', {}), ...names, ...lines);
  }

  function thumbnail(bytes, { height, width }, head, diverging) {
    const canvas = make('canvas', { width: Math.max(width, 1), height: Math.max(height, 1), 'aria-hidden': 'true' });
    if (!width || !height) return canvas;
    const pen = canvas.getContext('2d'), image = pen.createImageData(width, height), table = rampFor(diverging);
    for (let i = 0; i < width * height; i++) {
      const at = step(bytes[head * width * height + i], diverging ? [-127, 127] : [0, 127]);
      image.data[4 * i] = table[3 * at]; image.data[4 * i + 1] = table[3 * at + 1]; image.data[4 * i + 2] = table[3 * at + 2]; image.data[4 * i + 3] = 255;
    }
    pen.putImageData(image, 0, 0);
    return canvas;
  }

  function go(site, head) {
    const inGrid = grid.contains(document.activeElement);
    const from = [sites[state.site].rows, sites[state.site].columns];
    state.site = clamp(site, 0, sites.length - 1);
    if (!current()) state.kind = kinds.find(kind => sites[state.site].kinds[kind]);
    state.head = clamp(head, 0, current().heads.length - 1);
    if (from[0] !== sites[state.site].rows || from[1] !== sites[state.site].columns) { state.row = 0; state.column = null; }
    show().then(() => { if (inGrid) thumbs.get(`${state.site}-${shownHead()}`)?.focus(); });
  }

  // What is shown
  let turn = 0, drawnKind = null, shown = null;
  async function show() {
    const mine = ++turn;
    if (!current()) state.kind = kinds.find(kind => sites[state.site].kinds[kind]);
    if (drawnKind !== state.kind) { drawnKind = state.kind; overview(); }
    const head = shownHead(), facts = current().heads[head];
    press(kindGroup, state.kind);
    press(viewGroup, state.view);
    kindGroup.querySelectorAll('button').forEach(button => { button.disabled = !sites[state.site].kinds[button.dataset.choice]; });
    siteChoice.selectedIndex = state.site;
    headChoice.replaceChildren(...current().heads.map((_, h) => make('option', {}, headName(current(), h))));
    headChoice.selectedIndex = head;
    thumbs.forEach((button, at) => {
      const chosen = at === `${state.site}-${head}`;
      button.setAttribute('aria-pressed', String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    });
    let values;
    try { values = await weights(state.site, kinds.indexOf(state.kind), head, facts); } catch (problem) {
      heading.textContent = `The weights could not be unpacked: ${problem.message}`;
      return;
    }
    if (mine !== turn) return;
    const top = (state.same ? peaks[state.kind] : facts.peak) || 1, diverging = signed[state.kind];
    const error = facts.form === 'f32' ? 0 : facts.scale / 2;
    shown = { rows: rows(), columns: columns(), values, diverging, ends: [diverging ? -top : 0, top], error };
    heading.textContent = title();
    matrixBox.hidden = state.view !== 'matrix';
    textBox.hidden = state.view !== 'text';
    if (state.view === 'text') showText(); else { key.replaceChildren(legend(shown.ends, diverging)); map.show(shown); }
    box.dataset.shown = `${state.site}-${state.kind}-${head}`;
  }

  // A word's row: where it looks; its column: who looks at it
  const seen = () => {
    const { rows, columns, values } = shown;
    const row = state.row, column = oneText() ? state.row : state.column;
    return [
      { side: 'row', at: row, labels: columns, values: row === null ? null : Array.from(columns, (_, j) => values[row * columns.length + j]), word: row === null ? '' : rows[row], says: ['Where ', ' looks'] },
      { side: 'column', at: column, labels: rows, values: column === null ? null : Array.from(rows, (_, i) => values[i * columns.length + column]), word: column === null ? '' : columns[column], says: ['Who looks at ', ''] },
    ];
  };

  // A row or column alone would be pale on the matrix's scale; it gets its own, unless one scale is chosen.
  const textEnds = () => state.same ? shown.ends : limits(seen().flatMap(part => part.values || []), shown.diverging);

  function pick(side, i) {
    if (oneText()) { state.row = i; state.column = null; }
    else if (side === 'row') { state.column = i; state.row = null; } // the keys' text: who looks at this key
    else { state.row = i; state.column = null; }
    showText();
  }

  function showText() {
    if (oneText() && state.row === null) state.row = state.column ?? 0;
    const focused = textBox.contains(document.activeElement);
    const [looks, looked] = seen(), ends = textEnds();
    key.replaceChildren(legend(ends, shown.diverging, true));
    const parts = [looks, looked].map(part => {
      const head = part.values
        ? make('h4', {}, part.says[0], make('bdi', { class: 'token' }, part.word), part.says[1])
        : make('h4', {}, part.side === 'row' ? 'The words looked at' : 'The words that look', make('span', { class: 'hint' }, ' (choose one)'));
      const text = make('p', { class: 'words pick', dir: 'auto' });
      part.labels.forEach((label, i) => {
        const chosen = oneText() ? i === state.row : part.side === 'row' ? i === state.column : i === state.row;
        const word = make('button', { type: 'button', class: chosen ? 'word chosen' : 'word', tabindex: chosen ? '0' : '-1', 'data-at': String(i), onclick: () => pick(part.side, i) }, make('bdi', {}, label));
        if (part.values) {
          paintWord(word, part.values[i], ends, shown.diverging);
          const off = shown.error ? ` ± ${number(shown.error, 1)}` : '';
          const pair = part.side === 'row' ? [part.word, label] : [label, part.word];
          word.addEventListener('pointermove', event => tip(event, [[[pair[0], 'token'], ' → ', [pair[1], 'token']], [[number(part.values[i], shown.error ? 3 : 6) + off, 'value']]], part.values[i]));
          word.addEventListener('pointerleave', hideTip);
        }
        text.append(word, ' ');
      });
      return make('section', {}, head, text);
    });
    textBox.replaceChildren(...(oneText() || state.row !== null || state.column === null ? parts : parts.reverse()));
    if (focused) textBox.querySelector('.word.chosen')?.focus({ preventScroll: true });
  }

  function exportShown() {
    if (!shown) return;
    if (state.view === 'matrix') { download(map.svg(title()), title()); return; }
    const texts = seen().filter(part => part.values).map(part => ({ heading: part.says[0] + part.word + part.says[1], labels: part.labels, values: part.values }));
    download(wordsSheet(texts, textEnds(), shown.diverging, title()), title());
  }

  addEventListener('keydown', event => {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!by || event.ctrlKey || event.altKey || event.metaKey || event.target.matches?.('select, input')) return;
    const inside = box.contains(document.activeElement);
    if (!inside && (by[0] || document.activeElement !== document.body)) return;
    event.preventDefault();
    if (!event.shiftKey) { go(state.site + by[0], shownHead() + by[1]); return; }
    if (state.view === 'text' && inside) {
      const side = state.row === null ? 'row' : 'column';
      const all = side === 'row' ? columns() : rows();
      pick(side, clamp((state.row ?? state.column ?? 0) + by[0] + by[1], 0, all.length - 1));
    }
  });
  darkMode.addEventListener('change', () => { drawnKind = null; show(); });
  show();
}
