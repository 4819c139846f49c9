// The frame of a plot: scales, grid, labels, legend and the tip that follows the pointer.
// Text of users only ever enters through textContent.

const COLOURS = 8;
const DASHES = ['', '7 3', '2 3', '9 3 2 3', '4 2', '12 4', '1 2', '6 2 1 2'];
const UNITS = [['s', 1, 120], ['min', 60, 7200], ['h', 3600, 172800], ['d', 86400, Infinity]];

const colour = (index) => `var(--c${index % COLOURS})`;

function svg(name, attributes, parent, text) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

function html(name, className, parent, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

const short = (value) => {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(3)));
};

const unitFor = (seconds) => UNITS.find((unit) => Math.abs(seconds) < unit[2]);

function span(seconds) {
  const [name, scale] = unitFor(seconds);
  return `${short(seconds / scale)} ${name}`;
}

// Round steps of 1, 2 or 5.
function steps(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) {
    ticks.push(Math.abs(tick) < step * 1e-9 ? 0 : tick);
  }
  return ticks;
}

// Marks that a person reads as times, for an axis on which equal lengths are equal factors.
const TIME_MARKS = new Map([[1, '1 s'], [10, '10 s'], [60, '1 min'], [600, '10 min'], [3600, '1 h'], [36000, '10 h'], [86400, '1 d'], [864000, '10 d'], [8640000, '100 d']]);

function logTimes(low, high) {
  const a = Math.log(low);
  const b = Math.log(high);
  const scale = (value) => (Math.log(Math.max(value, low)) - a) / (b - a || 1);
  return { scale, ticks: [...TIME_MARKS.keys()].filter((t) => t >= low && t <= high), format: (t) => TIME_MARKS.get(t) };
}

function linear(low, high, format, count = 5) {
  const scale = (value) => (value - low) / (high - low || 1);
  return { scale, ticks: steps(low, high, count), format };
}

function times(low, high) {
  const [name, size] = unitFor(high);
  const axis = linear(low / size, high / size, short, 8);
  return {
    scale: (value) => axis.scale(value / size),
    ticks: axis.ticks.map((tick) => tick * size),
    format: (value) => short(value / size),
    unit: name,
  };
}

// A drawing with axes; returns where to draw and how to get from values to places.
function frame(parent, { x, y, xLabel, yLabel, title, width = 1000, height = 300, left = 62 }) {
  const box = { left, right: width - 16, top: 12, bottom: height - 46 };
  const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title }, parent);
  const px = (value) => box.left + x.scale(value) * (box.right - box.left);
  const py = (value) => box.bottom - y.scale(value) * (box.bottom - box.top);
  for (const tick of y.ticks) {
    svg('line', { class: 'grid', x1: box.left, x2: box.right, y1: py(tick), y2: py(tick) }, root);
    svg('text', { x: box.left - 8, y: py(tick) + 4, 'text-anchor': 'end' }, root, y.format(tick));
  }
  for (const tick of x.ticks) {
    svg('line', { class: 'grid', x1: px(tick), x2: px(tick), y1: box.top, y2: box.bottom }, root);
    svg('text', { x: px(tick), y: box.bottom + 17, 'text-anchor': 'middle' }, root, x.format(tick));
  }
  svg('line', { class: 'axis', x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, root);
  const middle = (box.top + box.bottom) / 2;
  svg('text', { x: (box.left + box.right) / 2, y: height - 8, 'text-anchor': 'middle' }, root, xLabel);
  svg('text', { transform: `translate(14 ${middle}) rotate(-90)`, 'text-anchor': 'middle' }, root, yLabel);
  return { root, box, px, py };
}

function legend(parent, names, { lines = false } = {}) {
  const list = html('ul', 'legend', parent);
  names.forEach((name, index) => {
    const item = html('li', '', list);
    const mark = svg('svg', { width: 22, height: 10 }, item);
    if (lines) {
      svg('line', { x1: 0, x2: 22, y1: 5, y2: 5, stroke: colour(index), 'stroke-width': 3, 'stroke-dasharray': DASHES[index % COLOURS] }, mark);
    } else {
      svg('rect', { x: 6, width: 10, height: 10, fill: colour(index) }, mark);
    }
    item.appendChild(document.createTextNode(name));
  });
}

function showTip(event, text) {
  const tip = document.getElementById('tip');
  tip.textContent = text;
  tip.style.display = text ? 'block' : 'none';
  const over = event.pageX + tip.offsetWidth + 24 > document.documentElement.scrollWidth;
  tip.style.left = `${event.pageX + (over ? -tip.offsetWidth - 12 : 14)}px`;
  tip.style.top = `${event.pageY + 14}px`;
}

function tipOn(element, text) {
  element.addEventListener('pointermove', (event) => showTip(event, text));
  element.addEventListener('pointerleave', (event) => showTip(event, ''));
}
