// Puts the drawings into the page.

const DRAW = { matrix: drawMatrix, curves: drawCurves, words: drawWords, document: drawDocument };
model.panels.forEach((panel, i) => DRAW[panel.kind]?.(panel, document.getElementById(`panel-${i}`)));
if (model.heads) drawExplorer(document.getElementById('explorer'));
