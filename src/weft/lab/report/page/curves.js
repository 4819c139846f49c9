// Curves: distributions of completion times, and what goes on over time.

function path(points, px, py) {
  return points.map(([x, y], i) => `${i ? 'L' : 'M'}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join('');
}

function stairs(points, px, py) {
  let text = '';
  points.forEach(([x, y], i) => {
    text += i ? `H${px(x).toFixed(1)}V${py(y).toFixed(1)}` : `M${px(x).toFixed(1)} ${py(y).toFixed(1)}`;
  });
  return text;
}

// data.series: [{name, points: [[seconds, share], …]}]
function drawCdf(parent, data) {
  const series = data.series.filter((line) => line.points.length);
  if (!series.length) return 0;
  const all = series.flatMap((line) => line.points.map((point) => point[0]));
  const x = logTimes(Math.max(Math.min(...all), 1), Math.max(...all, 2));
  const y = linear(0, 1, (share) => `${Math.round(share * 100)} %`);
  const plot = frame(parent, { x, y, xLabel: 'completion time (log scale)', yLabel: 'share of jobs', title: 'Distribution of completion times', height: 340 });
  series.forEach((line, index) => {
    const outline = data.exact ? stairs([[line.points[0][0], 0], ...line.points], plot.px, plot.py) : path(line.points, plot.px, plot.py);
    svg('path', { d: outline, fill: 'none', stroke: colour(index), 'stroke-width': 2, 'stroke-dasharray': DASHES[index % COLOURS] }, plot.root);
  });
  legend(parent, series.map((line) => line.name), { lines: true });
  follow(plot, (at) => {
    const share = Math.min(Math.max((plot.box.bottom - at.y) / (plot.box.bottom - plot.box.top), 0), 1);
    const lines = series.map((line) => `${line.name}: ${span(valueAt(line.points, share))}`);
    return [`${Math.round(share * 100)} % of jobs end within`, ...lines].join('\n');
  });
  return series.length;
}

function valueAt(points, share) {
  const found = points.find((point) => point[1] >= share);
  return (found || points[points.length - 1])[0];
}

// data: {times, used, waiting, total}; two plots on one time axis.
function drawOccupancy(parent, data) {
  if (!data.times.length) return 0;
  const end = data.end;
  const x = times(data.times[0], end);
  const label = `time since the first submission (${x.unit})`;
  const used = over(data.times, data.used, end);
  const waiting = over(data.times, data.waiting, end);
  const top = frame(parent, { x, y: linear(0, data.total, short), xLabel: label, yLabel: 'GPUs in use', title: 'GPUs in use over time', height: 230 });
  area(top, used, 0);
  svg('line', { x1: top.box.left, x2: top.box.right, y1: top.py(data.total), y2: top.py(data.total), stroke: 'var(--c3)', 'stroke-width': 1.5, 'stroke-dasharray': '5 4' }, top.root);
  const most = Math.max(...data.waiting, 1);
  const low = frame(parent, { x, y: linear(0, most, short), xLabel: label, yLabel: 'jobs waiting', title: 'Jobs waiting over time', height: 230 });
  area(low, waiting, 1);
  for (const plot of [top, low]) {
    follow(plot, (at) => {
      const share = (at.x - plot.box.left) / (plot.box.right - plot.box.left);
      const row = rowAt(data.times, data.times[0] + share * (end - data.times[0]));
      return `${span(data.times[row])}\n${data.used[row]} of ${data.total} GPUs in use\n${data.waiting[row]} jobs waiting`;
    });
  }
  return 2;
}

function over(at, values, end) {
  const points = at.map((time, row) => [time, values[row]]);
  points.push([end, values[values.length - 1]]);
  return points;
}

function area(plot, points, index) {
  const outline = stairs(points, plot.px, plot.py);
  const last = plot.px(points[points.length - 1][0]).toFixed(1);
  svg('path', { d: `${outline}H${last}V${plot.box.bottom}H${plot.box.left}Z`, fill: colour(index), opacity: 0.25 }, plot.root);
  svg('path', { d: outline, fill: 'none', stroke: colour(index), 'stroke-width': 1.2 }, plot.root);
}

function rowAt(sorted, value) {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sorted[middle] <= value) low = middle; else high = middle - 1;
  }
  return low;
}

// A tip that says what lies under the pointer.
function follow(plot, text) {
  plot.root.addEventListener('pointermove', (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.root.getScreenCTM().inverse());
    const inside = at.x >= plot.box.left && at.x <= plot.box.right && at.y >= plot.box.top && at.y <= plot.box.bottom;
    showTip(event, inside ? text(at) : '');
  });
  plot.root.addEventListener('pointerleave', (event) => showTip(event, ''));
}
