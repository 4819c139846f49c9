// Bars and dots: what was waited for, who got how much, and recipes beside each other.

const ROW = 26;
const LETTER = 7;

// data: {causes: [name], rows: [{name, jobs, seconds: [mean per cause]}]}
function drawWaits(parent, data) {
  const rows = data.rows.filter((row) => row.seconds.some((s) => s > 0));
  if (!rows.length) return 0;
  const total = (row) => row.seconds.reduce((a, b) => a + b, 0);
  const grid = html('div', 'few', parent);
  const x = times(0, Math.max(...rows.map(total)));
  stack(grid, data.causes, rows, { title: 'Mean wait per job', x, xLabel: `time waited (${x.unit})`, of: (seconds) => seconds, label: (row) => span(total(row)) });
  const share = linear(0, 1, (v) => short(v * 100));
  stack(grid, data.causes, rows, { title: 'Share of it by cause', x: share, xLabel: 'share of the wait (%)', of: (seconds, row) => seconds / total(row), label: () => '' });
  legend(parent, data.causes);
  return rows.length;
}

function stack(grid, causes, rows, { title, x, xLabel, of, label }) {
  const cell = html('div', 'cell', grid);
  html('h3', '', cell, title);
  const plot = lanes(cell, rows.map((row) => row.name), { x, xLabel, title, width: 540, room: label(rows[0]) ? 70 : 10 });
  rows.forEach((row, index) => {
    let from = 0;
    row.seconds.forEach((seconds, cause) => {
      if (seconds <= 0) return;
      const to = from + of(seconds, row);
      bar(plot, index, from, to, cause, `${row.name}, ${row.jobs.toLocaleString('en')} jobs\n${causes[cause]}: ${span(seconds)} per job`);
      from = to;
    });
    svg('text', { x: plot.px(from) + 6, y: plot.middle(index) + 4 }, plot.root, label(row));
  });
}

// data: [{name, jobs, slowdown, share}]
function drawTenants(parent, data) {
  if (!data.length) return 0;
  const grid = html('div', 'few', parent);
  const names = data.map((tenant) => tenant.name);
  const parts = [
    ['Mean slowdown', 'slowdown', 'completion time / service needed (×)', 0, (v) => `${short(v)} ×`],
    ['Share of GPU time', 'share', 'share of all GPU time used (%)', 2, (v) => `${short(v * 100)} %`],
  ];
  for (const [title, key, xLabel, index, format] of parts) {
    const cell = html('div', 'cell', grid);
    html('h3', '', cell, title);
    const most = Math.max(...data.map((tenant) => tenant[key])) || 1;
    const x = linear(0, most, key === 'share' ? (v) => short(v * 100) : short, 4);
    const plot = lanes(cell, names, { x, xLabel, title, width: 540, room: 60 });
    data.forEach((tenant, row) => {
      bar(plot, row, 0, tenant[key], index, `${tenant.name}: ${tenant.jobs.toLocaleString('en')} jobs\n${title.toLowerCase()} ${format(tenant[key])}`);
      svg('text', { x: plot.px(tenant[key]) + 6, y: plot.middle(row) + 4 }, plot.root, format(tenant[key]));
    });
  }
  return data.length;
}

// data: {recipes: [name], metrics: [{title, unit, means: [], halves: []}]}
function drawDots(parent, data) {
  if (!data.recipes.length) return 0;
  const grid = html('div', 'many', parent);
  for (const metric of data.metrics) {
    const cell = html('div', 'cell', grid);
    html('h3', '', cell, metric.title);
    const ends = metric.means.map((mean, row) => mean + (metric.halves[row] || 0));
    const most = Math.max(...ends) || 1;
    const x = metric.unit === 's' ? times(0, most) : linear(0, most, metric.unit === '%' ? (v) => short(v * 100) : short, 4);
    const unit = x.unit || metric.unit;
    const plot = lanes(cell, data.recipes, { x, xLabel: unit, title: metric.title, width: 380, room: 16 });
    const format = (v) => `${x.format(v)} ${unit}`;
    metric.means.forEach((mean, row) => dot(plot, row, mean, metric.halves[row], `${data.recipes[row]}: ${format(mean)}${metric.halves[row] === null ? '' : ` ± ${format(metric.halves[row])}`}`));
  }
  return data.metrics.length;
}

// A frame with one named row per thing.
function lanes(parent, names, { x, xLabel, title, width, room }) {
  const longest = Math.max(...names.map((name) => name.length));
  const letters = Math.max(Math.min(longest, Math.floor((width * 0.36) / LETTER)), 5);
  const left = letters * LETTER + 24;
  const height = names.length * ROW + 62;
  const inner = { ...x, scale: (value) => x.scale(value) * ((width - 16 - left - room) / (width - 16 - left)) };
  const y = { scale: () => 0, ticks: [], format: String };
  const plot = frame(parent, { x: inner, y, xLabel, yLabel: '', title, width, height, left });
  plot.middle = (row) => plot.box.top + 6 + ROW * (row + 0.5);
  names.forEach((name, row) => {
    const text = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
    const label = svg('text', { class: 'name', x: left - 8, y: plot.middle(row) + 4, 'text-anchor': 'end' }, plot.root, text);
    svg('title', {}, label, name);
  });
  return plot;
}

function bar(plot, row, from, to, index, text) {
  const width = Math.max(plot.px(to) - plot.px(from), 0.5);
  tipOn(svg('rect', { x: plot.px(from), y: plot.middle(row) - 9, width, height: 18, fill: colour(index) }, plot.root), text);
}

function dot(plot, row, mean, half, text) {
  const y = plot.middle(row);
  const group = svg('g', {}, plot.root);
  if (half) {
    const [a, b] = [plot.px(Math.max(mean - half, 0)), plot.px(mean + half)];
    svg('line', { x1: a, x2: b, y1: y, y2: y, stroke: colour(row), 'stroke-width': 2.5 }, group);
    for (const end of [a, b]) svg('line', { x1: end, x2: end, y1: y - 5, y2: y + 5, stroke: colour(row), 'stroke-width': 2 }, group);
  }
  svg('circle', { cx: plot.px(mean), cy: y, r: 5, fill: colour(row) }, group);
  svg('rect', { x: plot.box.left, width: plot.box.right - plot.box.left, y: y - ROW / 2, height: ROW, fill: 'transparent' }, group);
  tipOn(group, text);
}
