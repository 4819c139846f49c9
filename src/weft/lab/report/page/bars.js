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

// How far an axis goes: to the farthest end that is not many times the usual one. Beyond it things
// are drawn at the edge and told, so that one that is far off does not make all others look alike.
const FAR = 4;

function reach(ends) {
  const sorted = ends.filter((end) => end > 0).sort((a, b) => a - b);
  if (!sorted.length) return 1;
  const usual = sorted[Math.floor((sorted.length - 1) / 2)];
  const near = sorted.filter((end) => end <= FAR * usual);
  const most = sorted[sorted.length - 1];
  return near.length === sorted.length ? most : Math.min(near[near.length - 1] * 1.25, most);
}

// data: {recipes: [name], metrics: [{title, unit, means: [], halves: []}]}; a mean may be null.
function drawDots(parent, data) {
  if (!data.recipes.length) return 0;
  const grid = html('div', 'many', parent);
  for (const metric of data.metrics) {
    const cell = html('div', 'cell', grid);
    html('h3', '', cell, metric.title);
    const most = reach(metric.means.map((mean, row) => (mean || 0) + (metric.halves[row] || 0)));
    const x = metric.unit === 's' ? times(0, most) : linear(0, most, metric.unit === '%' ? (v) => short(v * 100) : short, 4);
    const unit = x.unit || metric.unit;
    const plot = lanes(cell, data.recipes, { x, xLabel: unit, title: metric.title, width: 380, room: 34 });
    const format = metric.unit === 's' ? span : (v) => `${x.format(v)} ${unit}`;
    dots(plot, metric, { low: 0, high: most, names: data.recipes, colours: 0, format });
  }
  return data.metrics.length;
}

// data: {recipes: [name], metrics: [{title, means: [share], halves: []}]}, without the first recipe.
function drawApart(parent, data) {
  if (!data.recipes.length || !data.metrics.length) return 0;
  const grid = html('div', 'many', parent);
  const format = (share) => `${share > 0 ? '+' : ''}${short(share * 100)} %`;
  for (const metric of data.metrics) {
    const cell = html('div', 'cell', grid);
    html('h3', '', cell, metric.title);
    const ends = metric.means.flatMap((mean, row) => (mean === null ? [] : [mean - (metric.halves[row] || 0), mean + (metric.halves[row] || 0)]));
    const least = Math.max(Math.min(...ends, 0), -1); // nothing is less than none
    const most = ends.some((end) => end > 0) ? reach(ends) : 0;
    const margin = Math.max(most - least, 0.1) * 0.03;
    const [low, high] = [least - margin, most + margin];
    const x = linear(low, high, (v) => short(v * 100), 4);
    const plot = lanes(cell, data.recipes, { x, xLabel: '%', title: metric.title, width: 380, room: 34 });
    svg('line', { class: 'axis', x1: plot.px(0), x2: plot.px(0), y1: plot.box.top, y2: plot.box.bottom }, plot.root);
    dots(plot, metric, { low, high, names: data.recipes, colours: 1, format });
  }
  return data.metrics.length;
}

function dots(plot, metric, { low, high, names, colours, format }) {
  metric.means.forEach((mean, row) => {
    if (mean === null) return;
    const half = metric.halves[row];
    const text = `${names[row]}: ${format(mean)}${half === null ? '' : ` ± ${format(half).replace('+', '')}`}`;
    dot(plot, row, { mean, half, low, high, paint: colour(row + colours), told: format(mean), text });
  });
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

function dot(plot, row, { mean, half, low, high, paint, told, text }) {
  const y = plot.middle(row);
  const group = svg('g', {}, plot.root);
  const inside = (value) => plot.px(Math.min(Math.max(value, low), high));
  if (half) {
    const ends = [mean - half, mean + half];
    svg('line', { x1: inside(ends[0]), x2: inside(ends[1]), y1: y, y2: y, stroke: paint, 'stroke-width': 2.5 }, group);
    for (const end of ends) {
      const cut = end > high * 1.0001 || (end < low && low < 0);
      const at = inside(end);
      if (cut && end > high) svg('path', { class: 'cut', d: `M${at} ${y - 5}l7 5l-7 5z`, fill: paint }, group);
      else if (cut) svg('path', { class: 'cut', d: `M${at} ${y - 5}l-7 5l7 5z`, fill: paint }, group);
      else svg('line', { x1: at, x2: at, y1: y - 5, y2: y + 5, stroke: paint, 'stroke-width': 2 }, group);
    }
  }
  if (mean > high) {
    svg('path', { class: 'cut', d: `M${inside(mean)} ${y - 5}l7 5l-7 5z`, fill: paint }, group);
    svg('text', { x: inside(mean) - 6, y: y - 6, 'text-anchor': 'end' }, group, told);
  } else {
    svg('circle', { cx: inside(mean), cy: y, r: 5, fill: paint }, group);
  }
  svg('rect', { x: plot.box.left, width: plot.box.right - plot.box.left, y: y - ROW / 2, height: ROW, fill: 'transparent' }, group);
  tipOn(group, text);
}
