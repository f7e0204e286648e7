// Locks: holders and queues, holders over time, and who waits for whom.

import { follow, get } from './api.js';
import { element, field, notice, show, table } from './dom.js';
import { holders, waits } from './pictures.js';
import { age, number, plural, time } from './text.js';
import { treeLink } from './tree.js';

const COLUMNS = [['State'], ['For'], ['Since'], ['Session'], ['Client'], ['Family'], ['Token', true], ['Znode'], ['Data']];

export async function start(page, context) {
  const path = context.parameters.get('path') || '/';
  const to = element('input', { id: 'path', class: 'wide', name: 'path', value: path, spellcheck: 'false' });
  const form = element('form', { class: 'line', action: '/console/locks' }, field('Locks at and below', to),
    element('button', {}, 'Show'));
  const parts = { path, list: element('div'), seen: new Map(), remembered: new Map() };
  show(page, form, parts.list);
  await draw(parts);
  follow({ below: path }, { changed: () => draw(parts) });
}

async function draw(parts) {
  try {
    const found = await get('locks', { path: parts.path });
    const live = new Set(found.locks.map((lock) => lock.path));
    for (const lock of found.locks) note(parts.seen, lock, found.now_ms);
    for (const [path, stretches] of parts.seen) if (!live.has(path)) end(stretches, new Set(), found.now_ms);
    await remember(parts, [...live]);
    const edges = edgesOf(found);
    show(parts.list, summary(found), found.deadlocks.map(deadlock), found.wait_for_themselves.map(own),
      edges.length > 0 ? [element('h2', {}, 'Who waits for whom'), waits(edges)] : null,
      found.locks.map((lock) => section(lock, parts, found.now_ms)));
  } catch (error) {
    show(parts.list, notice(error.message, 'bad'));
  }
}

function summary(found) {
  const rest = found.is_complete ? '' : `; only ${number(found.visited)} znodes were looked at, begin further down`;
  const waiting = found.locks.reduce((sum, lock) => sum + lock.queue.length, 0);
  return element('p', { id: 'summary', class: found.is_complete ? null : 'warn' },
    `${plural(found.locks.length, 'lock')}, ${number(waiting)} waiting${rest}`);
}

/** A deadlock by its cycle: what each session holds, and what it waits for. */
function deadlock(turns) {
  const line = ({ session, address, holds, waits_for: awaited }) => element('li', {}, sessionLink(session),
    address ? ` (${address})` : '', holds ? ` holds ${holds.lock},` : '', ` waits for ${awaited.lock}`);
  return element('div', { role: 'alert' },
    notice(`Deadlock of ${turns.length} sessions, each waits for the next one, the last for the first:`, 'bad'),
    element('ol', {}, turns.map(line)));
}

function own({ session, lock }) {
  return notice(`${session} holds ${lock} and waits for it: it waits for ever unless another thread of that program holds it.`, 'warn');
}

const sessionLink = (session) => (session ? element('a', { href: `/console/sessions?filter=${session}` }, session) : 'none');

function section(lock, parts, nowMs) {
  const members = [...lock.holders.map((it) => [it, 'holds']), ...lock.queue.map((it, at) => [it, `${at + 1}.`])];
  const rows = members.map(([it, state]) => [`${state} ${it.role}`, age(it.for_ms), time(it.since_ms),
    sessionLink(it.session), it.address, it.family, it.token, treeLink(it.path, it.path.split('/').at(-1)), it.data ?? '']);
  const stretches = parts.remembered.get(lock.path) ?? parts.seen.get(lock.path) ?? [];
  const from = parts.remembered.has(lock.path) ? 'From the history that the servers keep.'
    : 'As seen while this page was open: a holder of before is not shown.';
  return element('section', {}, element('h2', {}, element('span', { class: 'path' }, lock.path),
    ` (${lock.kind}, ${number(lock.holders.length)}${lock.permits === null ? '' : ` of ${number(lock.permits)}`} held, ${number(lock.queue.length)} waiting)`),
  lock.warnings.map((warning) => notice(warning, 'warn')),
  table(`Holders and queue of ${lock.path}`, COLUMNS, rows, (at) => (at < lock.holders.length ? 'holds' : null)),
  holders(stretches, nowMs, lock.path), element('p', { class: 'muted' }, from),
  element('p', {}, element('a', { href: `/console/history?lock=${encodeURIComponent(lock.path)}` }, 'History of this lock')));
}

const labelOf = (member) => member.session ?? member.path.split('/').at(-1);

/** Notes who holds a lock now. */
function note(seen, lock, nowMs) {
  const stretches = seen.get(lock.path) ?? [];
  seen.set(lock.path, stretches);
  end(stretches, new Set(lock.holders.map((holder) => holder.path)), nowMs);
  for (const holder of lock.holders) {
    if (stretches.some((it) => it.path === holder.path && it.toMs === null)) continue;
    // One that has not waited holds it since it came.
    const fromMs = stretches.length === 0 ? holder.since_ms : nowMs;
    stretches.push({ path: holder.path, label: labelOf(holder), fromMs, toMs: null });
  }
  if (stretches.length > 200) stretches.splice(0, stretches.length - 200);
}

function end(stretches, holding, nowMs) {
  for (const it of stretches) if (it.toMs === null && !holding.has(it.path)) it.toMs = nowMs;
}

/** Reads what servers remember of the first locks, as far as they do. */
async function remember(parts, paths) {
  if (parts.hasNoHistory) return;
  for (const path of paths.slice(0, 5)) {
    const answer = await get('history', { lock: path, limit: 500 }).catch(() => ({ isKept: false }));
    if (!answer.isKept) {
      parts.hasNoHistory = true;
      parts.remembered.clear();
      return;
    }
    const stretches = stretchesOf(answer.answer);
    // Semaphores have no turns: what the page has seen is all there is.
    if (stretches.length > 0) parts.remembered.set(path, stretches);
  }
}

/** The stretches of holders: the turns that have begun. Of one that held before, the history's begin is the first that is known. */
function stretchesOf({ turns, begin }) {
  return (turns ?? []).filter((turn) => turn.held).map((turn) => ({ path: turn.path, label: turn.session,
    fromMs: turn.held_at_ms ?? turn.queued_at_ms ?? begin?.time_ms ?? turn.ended_at_ms ?? Date.now(), toMs: turn.ended_at_ms }));
}

/** The edges of the graph, once each. Those of deadlocks are marked, and lead from turn to turn. */
function edgesOf(found) {
  const edges = new Map();
  const add = (from, to, label, isInCycle) => {
    if (from !== to) edges.set(JSON.stringify([from, to, label]), { from, to, label, isInCycle });
  };
  for (const wait of found.waits) for (const it of wait.for) add(labelOf(wait), labelOf(it), wait.lock, false);
  for (const turns of found.deadlocks) {
    for (const [at, turn] of turns.entries()) {
      const next = turns[(at + 1) % turns.length];
      add(turn.session, next.session, turn.waits_for.lock, true);
    }
  }
  return [...edges.values()];
}
