// A document: the weight of each sentence in the margin, its words coloured by their values.

function drawDocument(panel, box) {
  const values = panel.values.map(row => row.map(value => value === null ? NaN : value));
  const margin = panel.margin.map(value => value === null ? NaN : value);
  const ends = limits(values.flat(), false), heaviest = limits(margin, false);
  const painted = [];
  const shown = (element, label, value, range) => {
    element.addEventListener('pointermove', event => tip(event, [[[label, 'token']], [[number(value, 6), 'value']]], value));
    element.addEventListener('pointerleave', hideTip);
    element.setAttribute('aria-label', `${label}: ${number(value, 3)}`);
    painted.push([element, value, range]);
    return element;
  };
  const sentences = panel.labels.map((labels, i) => {
    const weight = shown(make('span', { class: 'weight' }, number(margin[i], 3)), `sentence ${i + 1}`, margin[i], heaviest);
    const text = make('p', { class: 'words', dir: 'auto' });
    labels.forEach((label, j) => text.append(shown(make('span', { class: 'word' }, make('bdi', {}, label)), label, values[i][j], ends), ' '));
    return make('div', { class: 'sentence' }, weight, text);
  });
  const texts = panel.labels.map((labels, i) => ({ heading: `sentence ${i + 1}: ${number(margin[i], 3)}`, labels, values: values[i] }));
  const key = make('div', { class: 'row' });
  const redraw = () => {
    painted.forEach(([element, value, range]) => paintWord(element, value, range, false));
    key.replaceChildren(legend(ends, false, true), exportButton(() => download(wordsSheet(texts, ends, false, panel.name), panel.name)));
  };
  box.replaceChildren(...sentences, key);
  redraw();
  darkMode.addEventListener('change', redraw);
}
