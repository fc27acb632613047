// A text whose words are coloured by their values.

function paintWord(element, value, ends, diverging) {
  const { css: colour, ink } = tint(value, ends, diverging);
  element.style.backgroundColor = colour;
  element.style.color = ink;
}

function drawWords(panel, box) {
  const values = panel.values.map(value => value === null ? NaN : value);
  const ends = limits(values, panel.diverging);
  const text = make('p', { class: 'words', dir: 'auto' });
  const words = panel.labels.map((label, i) => {
    const word = make('span', { class: 'word' }, make('bdi', {}, label));
    word.addEventListener('pointermove', event => tip(event, [[[label, 'token']], [[number(values[i], 6), 'value']]], values[i]));
    word.addEventListener('pointerleave', hideTip);
    word.setAttribute('aria-label', `${label}: ${number(values[i], 3)}`);
    return word;
  });
  words.forEach(word => text.append(word, ' '));
  const key = make('div', { class: 'row' });
  const redraw = () => {
    words.forEach((word, i) => paintWord(word, values[i], ends, panel.diverging));
    key.replaceChildren(legend(ends, panel.diverging, true), exportButton(() => download(wordsSheet([{ heading: '', labels: panel.labels, values }], ends, panel.diverging, panel.name), panel.name)));
  };
  box.replaceChildren(text, key);
  redraw();
  darkMode.addEventListener('change', redraw);
}

// Texts on paper, one below the other.
function wordsSheet(texts, ends, diverging, title) {
  const width = 760, line = 24;
  const placed = [];
  let y = 44;
  ruler.font = '13px system-ui, sans-serif';
  for (const { heading, labels, values } of texts) {
    if (heading) { placed.push({ heading, y }); y += line; }
    let x = 12;
    labels.forEach((label, i) => {
      const size = ruler.measureText(label).width + 8;
      if (x + size > width - 12 && x > 12) { x = 12; y += line; }
      placed.push({ label, value: values[i], x, y, size });
      x += size + 3;
    });
    y += line * 1.5;
  }
  const paper = sheet(width, Math.ceil(y + 28), title);
  write(paper, title, { x: 12, y: 22, 'font-size': 13 });
  for (const item of placed) {
    if (item.heading) { write(paper, item.heading, { x: 12, y: item.y + 2, 'font-size': 11, fill: '#666' }); continue; }
    const { css: back, ink } = tint(item.value, ends, diverging, false);
    paper.append(shape('rect', { x: item.x, y: item.y - 15, width: item.size, height: 20, rx: 3, fill: back }));
    write(paper, item.label, { x: item.x + item.size / 2, y: item.y, 'text-anchor': 'middle', 'font-size': 13, fill: ink });
  }
  paperLegend(paper, 12, y - 8, value => tint(value, ends, diverging, false).css, ends);
  return paper;
}
