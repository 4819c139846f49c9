// Draws every figure from the data in the page; `data-drawn` tells how much each one drew.

const DRAWINGS = { cdf: drawCdf, occupancy: drawOccupancy, gantt: drawGantt, waits: drawWaits, tenants: drawTenants, dots: drawDots, apart: drawApart };

const DATA = JSON.parse(document.getElementById('data').textContent);
for (const figure of document.querySelectorAll('figure[data-plot]')) {
  const name = figure.dataset.plot;
  const parent = html('div', 'drawing', figure);
  const drawn = DRAWINGS[name](parent, DATA[name]);
  figure.dataset.drawn = drawn;
  if (!drawn) html('p', 'empty', parent, figure.dataset.empty);
}
