// Who sat where: nodes as rows, a lane per GPU, colour by tenant; white is idle. Those who take turns
// on the same GPUs share a lane in stripes, each in its own place and the later ones paler.
// Shift or ctrl with the wheel zooms, dragging pans, a double click shows everything again.

const GAP = 4;
const NAMES = 74;
const FOOT = 34;
const STRIPE = 5;

// data: {nodes: [{name, gpus}], jobs: [name], tenants: [name], tenant_of: [tenant of job],
//        bars: [[node, lane, lanes, begin, end, job, turn, members], …], end}
function drawGantt(parent, data) {
  if (!data.bars.length) return 0;
  const canvas = html('canvas', '', parent);
  const lane = Math.max(2, Math.min(7, Math.floor(900 / data.nodes.reduce((sum, node) => sum + node.gpus, 1))));
  const tops = [];
  let height = 6;
  for (const node of data.nodes) {
    tops.push(height);
    height += Math.max(node.gpus * lane, 9) + GAP;
  }
  const view = { canvas, data, tops, lane, height, from: 0, to: data.end };
  legend(parent, data.tenants.slice(0, COLOURS - 1).concat(data.tenants.length >= COLOURS ? ['others'] : []));
  listen(view);
  new ResizeObserver(() => paint(view)).observe(parent);
  return paint(view);
}

function paint(view) {
  const { canvas, data, tops, lane, height, from, to } = view;
  const width = canvas.parentElement.clientWidth || 1000;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = (height + FOOT) * ratio;
  canvas.style.height = `${height + FOOT}px`;
  const pen = canvas.getContext('2d');
  pen.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(name).trim();
  const paints = Array.from({ length: COLOURS }, (_, i) => ink(`--c${i}`));
  view.px = (time) => NAMES + ((time - from) / (to - from)) * (width - NAMES - 10);
  view.width = width;
  pen.fillStyle = ink('--ground');
  data.nodes.forEach((node, row) => pen.fillRect(NAMES, tops[row], width - NAMES - 10, node.gpus * lane));
  let drawn = 0;
  for (const [node, first, count, begin, end, job, turn, members] of data.bars) {
    if (end < from || begin > to) continue;
    const a = Math.max(view.px(begin), NAMES);
    const b = Math.min(view.px(end), width - 10);
    pen.fillStyle = paints[Math.min(data.tenant_of[job], COLOURS - 1)];
    const top = tops[node] + first * lane;
    const tall = count * lane - (lane > 3 ? 0.5 : 0);
    if (members > 1) stripes(pen, a, b, top, tall, turn, members);
    else pen.fillRect(a, top, Math.max(b - a - (b - a > 3 ? 0.7 : 0), 0.6), tall);
    drawn += 1;
  }
  names(view, pen, ink);
  axis(view, pen, ink);
  return drawn;
}

// Its places in cycles that are the same for all on the lane; a bar shorter than a cycle is whole.
function stripes(pen, a, b, top, tall, turn, members) {
  pen.globalAlpha = 1 - (0.55 * turn) / members;
  const cycle = STRIPE * members;
  if (b - a < cycle) pen.fillRect(a, top + (tall * turn) / members, Math.max(b - a, 0.6), tall / members);
  for (let at = Math.floor(a / cycle) * cycle + STRIPE * turn; b - a >= cycle && at < b; at += cycle) {
    const from = Math.max(at, a);
    const to = Math.min(at + STRIPE, b);
    if (to > from) pen.fillRect(from, top, to - from, tall);
  }
  pen.globalAlpha = 1;
}

function names(view, pen, ink) {
  pen.fillStyle = ink('--soft');
  pen.font = '11px system-ui, sans-serif';
  pen.textAlign = 'right';
  let free = 0;
  view.data.nodes.forEach((node, row) => {
    const y = view.tops[row] + (node.gpus * view.lane) / 2 + 4;
    if (y < free) return;
    pen.fillText(node.name.length > 11 ? `${node.name.slice(0, 10)}…` : node.name, NAMES - 6, y);
    free = y + 12;
  });
}

function axis(view, pen, ink) {
  const x = times(view.from, view.to);
  pen.textAlign = 'center';
  pen.strokeStyle = ink('--line');
  for (const tick of x.ticks) {
    const at = view.px(tick);
    pen.beginPath();
    pen.moveTo(at, view.height - GAP);
    pen.lineTo(at, view.height + 2);
    pen.stroke();
    pen.fillText(x.format(tick), at, view.height + 14);
  }
  pen.fillText(`time since the first submission (${x.unit})`, (NAMES + view.width) / 2, view.height + 30);
}

function under(view, event) {
  const box = view.canvas.getBoundingClientRect();
  const y = event.clientY - box.top;
  const time = timeAt(view, event);
  let found = null;
  for (const bar of view.data.bars) {
    const top = view.tops[bar[0]] + bar[1] * view.lane;
    if (y >= top && y < top + bar[2] * view.lane && time >= bar[3] && time <= bar[4]) {
      if (bar[7] < 2 || !found || isTurn(view, event, bar)) found = bar;
    }
  }
  return found;
}

function isTurn(view, event, bar) {
  const x = event.clientX - view.canvas.getBoundingClientRect().left;
  return Math.floor(x / STRIPE) % bar[7] === bar[6];
}

function companions(data, bar) {
  if (bar[7] < 2) return '';
  const others = data.bars.filter((one) => one !== bar && one[0] === bar[0] && one[1] === bar[1] && one[3] === bar[3] && one[7] === bar[7]);
  return `\nin turns with ${others.map((one) => data.jobs[one[5]]).join(', ')}`;
}

function timeAt(view, event) {
  const x = event.clientX - view.canvas.getBoundingClientRect().left;
  return view.from + ((x - NAMES) / (view.width - NAMES - 10)) * (view.to - view.from);
}

function listen(view) {
  const { canvas, data } = view;
  let held = null;
  canvas.addEventListener('pointerdown', (event) => { held = event.clientX; });
  window.addEventListener('pointerup', () => { held = null; });
  canvas.addEventListener('pointermove', (event) => {
    if (held !== null) {
      const shift = ((held - event.clientX) / (view.width - NAMES - 10)) * (view.to - view.from);
      held = event.clientX;
      look(view, view.from + shift, view.to + shift);
      return;
    }
    const bar = under(view, event);
    showTip(event, bar ? `${data.jobs[bar[5]]}\ntenant ${data.tenant_names[bar[5]]}\n${bar[2]} GPUs on ${data.nodes[bar[0]].name}\nfrom ${span(bar[3])} for ${span(bar[4] - bar[3])}${companions(data, bar)}` : '');
  });
  canvas.addEventListener('pointerleave', (event) => showTip(event, ''));
  canvas.addEventListener('dblclick', () => look(view, 0, data.end));
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const at = timeAt(view, event);
    const factor = event.deltaY + event.deltaX > 0 ? 1.25 : 0.8;
    look(view, at - (at - view.from) * factor, at + (view.to - at) * factor);
  }, { passive: false });
}

function look(view, from, to) {
  const length = Math.min(to - from, view.data.end);
  view.from = Math.min(Math.max(from, 0), view.data.end - length);
  view.to = view.from + length;
  paint(view);
}
