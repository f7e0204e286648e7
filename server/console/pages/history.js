// What has happened to a path, a lock or a session, as far as servers remember.

import { get } from './api.js';
import { element, field, notice, show, table } from './dom.js';
import { age, number, time } from './text.js';
import { treeLink } from './tree.js';

const COLUMNS = [['When'], ['What'], ['Path'], ['Session'], ['Client'], ['Identities'], ['Version', true], ['Zxid'], ['Reason']];
const TURN_COLUMNS = [['Held from'], ['Held to'], ['For'], ['Waited'], ['Session'], ['Client'], ['End'], ['Place']];
const KINDS = ['path', 'lock', 'session'];

export async function start(page, { parameters }) {
  const kind = KINDS.find((it) => parameters.get(it)) ?? 'path';
  const subject = parameters.get(kind) ?? '';
  const of = element('select', { id: 'kind' },
    KINDS.map((it) => element('option', { value: it, selected: it === kind }, it)));
  const text = element('input', { id: 'subject', class: 'wide', value: subject, required: true, spellcheck: 'false' });
  const since = element('select', { id: 'since' }, [['0', 'the beginning'], ['3600', 'an hour ago'], ['86400', 'a day ago']]
    .map(([value, name]) => element('option', { value, selected: parameters.get('since') === value }, name)));
  const form = element('form', { class: 'line' }, field('History of a', of), field('Which', text), field('Since', since),
    element('button', {}, 'Show'));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    location.assign(`/console/history?${new URLSearchParams({ [of.value]: text.value.trim(), since: since.value })}`);
  });
  const list = element('div');
  show(page, form, list);
  if (subject === '') {
    show(list, notice('Give a path, a lock or the id of a session.'));
    return;
  }
  await draw(list, kind, subject, Number(parameters.get('since') ?? 0));
}

async function draw(list, kind, subject, seconds) {
  const since = seconds > 0 ? Date.now() - seconds * 1000 : 0;
  let found;
  try {
    found = await get('history', { [kind]: subject, since_ms: since, limit: 500 });
  } catch (error) {
    show(list, notice(error.message, 'bad'));
    return;
  }
  if (!found.isKept) {
    show(list, element('div', { id: 'no-history' }, notice('This server keeps no history.', 'warn'),
      element('ul', {}, found.problems.map((it) => element('li', {}, it)))));
    return;
  }
  const { history, turns, unrecorded, truncated, begin } = found.answer;
  show(list, element('p', { class: 'muted' }, `From ${found.server}.`),
    truncated ? notice('There is more: choose a shorter time.', 'warn') : null,
    (unrecorded ?? []).length > 0 ? notice(`Something may be missing: ${unrecorded.map(gapText).join('; ')}.`, 'warn') : null,
    kind === 'lock' ? turnsOf(subject, turns ?? [], begin) : null,
    history.length === 0 ? notice('Nothing has happened, as far as the server remembers.')
      : table(`History of ${subject}: ${number(history.length)}`, COLUMNS, history.map(row)));
}

/** Who held a lock from when to when. */
function turnsOf(lock, turns, begin) {
  if (turns.length > 0) return table(`Turns of ${lock}: ${number(turns.length)}`, TURN_COLUMNS, turns.map(turn));
  const since = begin ? ` since ${time(begin.time_ms)}, where the history begins` : '';
  return element('div', { id: 'no-turns' }, notice(`No place in the queue of a lock is known here${since}. `
    + 'Turns are known of mutexes, read-write locks and elections, not of semaphores.', 'warn'));
}

function turn(it) {
  const [queued, held, ended] = [it.queued_at_ms, it.held_at_ms, it.ended_at_ms];
  const before = it.held ? 'not known' : null;
  const waited = queued === null ? null : age((held ?? ended ?? Date.now()) - queued);
  let end = it.held ? 'holds' : 'waits';
  if (ended !== null) end = String(it.reason ?? 'unknown').replaceAll('_', ' ') + (it.deleted_by ? ` (${it.deleted_by})` : '');
  return [held === null ? before : time(held), ended === null || !it.held ? null : time(ended),
    held === null ? null : age((ended ?? Date.now()) - held), it.held && held === null ? null : waited,
    element('a', { href: `/console/history?session=${encodeURIComponent(it.session)}` }, it.session),
    it.address, it.shared ? `${end} (shared)` : end, it.path.split('/').at(-1)];
}

const gapText = ({ after, through, reason }) => `behind zxid ${after} up to ${through} (${reason})`;

function row(entry) {
  if (entry.kind === 'gap') {
    return [null, 'something may be missing', null, null, null, null, null, `${entry.after} to ${entry.through}`, entry.reason];
  }
  const versions = entry.old_version === undefined || entry.old_version === null ? entry.version
    : `${entry.old_version} to ${entry.version}`;
  const session = entry.session ? element('a', { href: `/console/history?session=${encodeURIComponent(entry.session)}` }, entry.session) : null;
  return [time(entry.time_ms), String(entry.kind).replaceAll('_', ' '), entry.path ? treeLink(entry.path) : null, session,
    entry.address, (entry.identities ?? []).join(', '), versions === undefined ? null : String(versions ?? '–'),
    entry.zxid, entry.reason ? entry.reason.replaceAll('_', ' ') : null];
}
