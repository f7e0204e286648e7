// Pictures: each has a title for those who do not see it, and a table beside it says the same.

import { element, shape } from './dom.js';
import { age, time } from './text.js';

const WIDTH = 960;
const LEFT = 190;
const ROW = 30;

function picture(title, height, ...children) {
  return shape('svg', { class: 'picture', viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height, role: 'img',
    'aria-label': title }, shape('title', {}, title), children);
}

function short(text, length = 24) {
  return text.length > length ? `…${text.slice(1 - length)}` : text;
}

/** Rows of bars over time. */
function bars(title, rows, fromMs, toMs, marks = []) {
  const span = Math.max(1000, toMs - fromMs);
  const x = (ms) => LEFT + ((Math.max(ms, fromMs) - fromMs) / span) * (WIDTH - LEFT - 10);
  const height = rows.length * ROW + 30;
  const lines = rows.map((row, at) => [
    shape('text', { x: 0, y: at * ROW + 20 }, short(row.label)),
    row.bars.filter((bar) => bar.toMs >= fromMs).map((bar) =>
      shape('rect', { class: bar.kind, x: x(bar.fromMs), y: at * ROW + 6, height: 18, rx: 2,
        width: Math.max(2, x(bar.toMs) - x(bar.fromMs)) }, shape('title', {}, bar.title))),
  ]);
  const seen = marks.filter((mark) => mark.atMs >= fromMs).map((mark) =>
    shape('line', { class: 'election', x1: x(mark.atMs), x2: x(mark.atMs), y1: 0, y2: height - 26 },
      shape('title', {}, mark.title)));
  const axis = height - 24;
  return picture(title, height, lines, seen,
    shape('line', { class: 'axis', x1: LEFT, x2: WIDTH - 10, y1: axis, y2: axis }),
    shape('text', { x: LEFT, y: height - 6 }, `${age(span)} ago`),
    shape('text', { x: WIDTH - 10, y: height - 6, 'text-anchor': 'end' }, time(toMs)));
}

const HOUR_MS = 3600 * 1000;

/** The roles of servers, and the elections between them. */
export function timeline({ servers, elections }, nowMs) {
  const rows = servers.map((server) => ({
    label: server.address,
    bars: server.stretches.map((it) => ({ kind: it.role.replace(/[^a-z-]/g, ''), fromMs: it.fromMs, toMs: it.toMs,
      title: `${server.address}: ${it.role} from ${time(it.fromMs)} to ${time(it.toMs)}` })),
  }));
  const first = Math.min(nowMs, ...servers.flatMap((server) => server.stretches.map((it) => it.fromMs)));
  const marks = elections.map((it) => ({ atMs: it.atMs, title: `${it.leader} leads in term ${it.term}` }));
  const now = servers.map((server) => `${server.address} ${server.stretches.at(-1)?.role}`).join(', ');
  const title = `Roles of ${servers.length} servers and ${elections.length} elections over time; now: ${now}`;
  const roles = [...new Set(servers.flatMap((server) => server.stretches.map((it) => it.role)))];
  const legend = roles.map((role) => element('li', {},
    element('span', { class: `swatch ${role.replace(/[^a-z-]/g, '')}`, 'aria-hidden': 'true' }), role));
  return element('figure', {}, bars(title, rows, Math.max(first, nowMs - HOUR_MS), nowMs, marks),
    element('figcaption', {}, 'As seen from this console, the last hour at most; a dashed line is an election.',
      element('ul', { class: 'legend' }, legend)));
}

/** Who held a lock when: stretches of `{ label, fromMs, toMs }`. */
export function holders(stretches, nowMs, path) {
  const labels = [...new Set(stretches.map((it) => it.label))];
  const rows = labels.map((label, at) => ({
    label,
    bars: stretches.filter((it) => it.label === label).map((it) => ({
      kind: at % 2 ? 'hold other' : 'hold', fromMs: it.fromMs, toMs: it.toMs ?? nowMs,
      title: `${label} from ${time(it.fromMs)} ${it.toMs === null ? 'until now' : `to ${time(it.toMs)}`}`,
    })),
  }));
  const first = Math.min(nowMs - 1000, ...stretches.map((it) => it.fromMs));
  const title = `Holders of ${path} over time: ${labels.join(', ') || 'none'}`;
  return element('figure', {}, bars(title, rows, Math.max(first, nowMs - 24 * HOUR_MS), nowMs),
    element('figcaption', {}, 'Holders over time, each session in a row.'));
}

const NODE_WIDTH = 190;
const NODE_HEIGHT = 34;
// What is between two boxes, which has the name of a lock.
const COLUMN = NODE_WIDTH + 210;
const LINE = 110;
const MARGIN = 20;
// Sessions further away from the first one are below each other.
const COLUMNS_MAX = 6;

/** Who waits for whom: edges `{ from, to, label, isInCycle }`. */
export function waits(edges) {
  const nodes = [...new Set(edges.flatMap((edge) => [edge.from, edge.to]))];
  const inCycle = new Set(edges.filter((edge) => edge.isInCycle).map((edge) => edge.from));
  const levels = levelsOf(nodes, edges);
  const places = new Map();
  const counts = [];
  for (const node of nodes) {
    const level = levels.get(node);
    counts[level] = (counts[level] ?? 0) + 1;
    places.set(node, { x: level * COLUMN + MARGIN, y: (counts[level] - 1) * LINE + MARGIN });
  }
  const height = Math.max(...counts) * LINE + MARGIN;
  // Behind the last column there is room for edges within it.
  const width = Math.max(WIDTH, counts.length * COLUMN + MARGIN);
  const lines = edges.map((edge) => line(edge, places));
  const boxes = nodes.map((node) => {
    const { x, y } = places.get(node);
    const kind = inCycle.has(node) ? 'node cycle' : 'node';
    return [shape('rect', { class: kind, x, y, width: NODE_WIDTH, height: NODE_HEIGHT, rx: 5 }),
      shape('text', { x: x + NODE_WIDTH / 2, y: y + 22, 'text-anchor': 'middle' }, short(node))];
  });
  const title = `Graph of waits between ${nodes.length} sessions: `
    + edges.map((edge) => `${edge.from} waits for ${edge.to} at ${edge.label}`).join('; ');
  const made = shape('svg', { id: 'waits', class: 'picture', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': title.slice(0, 2000) },
  shape('defs', {}, arrow('arrow', 'arrow'), arrow('arrow-cycle', 'arrow cycle')),
  lines.map((it) => it.path), boxes, lines.map((it) => it.text));
  return element('figure', {}, made, element('figcaption', {},
    'An arrow leads from a session that waits to one that has to go first; the lock that it waits for is beside it.'));
}

function arrow(id, kind) {
  return shape('marker', { id, viewBox: '0 0 8 8', refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, orient: 'auto' },
    shape('path', { class: kind, d: 'M0 0 L8 4 L0 8 z' }));
}

// Those who only hold are on the right. An edge that closes a cycle has no say in it.
function levelsOf(nodes, edges) {
  const next = new Map(nodes.map((node) => [node, []]));
  for (const edge of edges) next.get(edge.from).push(edge.to);
  const [begun, done, order, forward] = [new Set(), new Set(), [], []];
  for (const node of nodes) {
    const waiting = begun.has(node) ? [] : [{ node, at: 0 }];
    begun.add(node);
    while (waiting.length > 0) {
      const top = waiting.at(-1);
      const to = next.get(top.node)[top.at];
      top.at += 1;
      if (to === undefined) {
        done.add(top.node);
        order.push(waiting.pop().node);
      } else if (!begun.has(to)) {
        begun.add(to);
        forward.push([top.node, to]);
        waiting.push({ node: to, at: 0 });
      } else if (done.has(to)) {
        forward.push([top.node, to]);
      }
    }
  }
  const targets = new Map(nodes.map((node) => [node, []]));
  for (const [from, to] of forward) targets.get(from).push(to);
  const levels = new Map(nodes.map((node) => [node, 0]));
  for (const node of order.reverse()) {
    const wanted = Math.min(levels.get(node) + 1, COLUMNS_MAX - 1);
    for (const to of targets.get(node)) levels.set(to, Math.max(levels.get(to), wanted));
  }
  return levels;
}

/** An edge to the right leads from side to side, one to the left below the boxes, one within a column beside it. */
function line(edge, places) {
  const [from, to] = [places.get(edge.from), places.get(edge.to)];
  const middle = NODE_HEIGHT / 2;
  let points;
  if (to.x > from.x) {
    const [x, end] = [from.x + NODE_WIDTH, to.x];
    points = [[x, from.y + middle], [x + 60, from.y + middle], [end - 60, to.y + middle], [end, to.y + middle]];
  } else if (to.x < from.x) {
    const [x, end] = [from.x + NODE_WIDTH / 2, to.x + NODE_WIDTH / 2];
    const [low, endLow] = [from.y + NODE_HEIGHT, to.y + NODE_HEIGHT];
    points = [[x, low], [x, low + 60], [end, endLow + 60], [end, endLow]];
  } else {
    const x = from.x + NODE_WIDTH;
    points = [[x, from.y + middle], [x + 70, from.y + middle], [x + 70, to.y + middle], [x, to.y + middle]];
  }
  const [start, one, two, end] = points.map((it) => it.join(' '));
  const title = `${edge.from} waits for ${edge.to} at ${edge.label}`;
  const path = shape('path', { class: edge.isInCycle ? 'edge cycle' : 'edge', d: `M${start} C${one} ${two} ${end}`,
    'marker-end': `url(#${edge.isInCycle ? 'arrow-cycle' : 'arrow'})` }, shape('title', {}, title));
  const at = (axis) => (points[0][axis] + 3 * points[1][axis] + 3 * points[2][axis] + points[3][axis]) / 8;
  const text = shape('text', { class: 'lock', x: at(0), y: at(1) - 6, 'text-anchor': 'middle' }, short(edge.label));
  return { path, text };
}
