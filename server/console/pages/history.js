// What has happened to a path, a lock or a session, as far as servers remember.

import { get } from './api.js';
import { element, field, notice, show, table } from './dom.js';
import { number, time } from './text.js';
import { treeLink } from './tree.js';

const COLUMNS = [['When'], ['What'], ['Path'], ['Session'], ['Client'], ['Identities'], ['Version', true], ['Zxid'], ['Reason']];
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
  const { history, gaps, truncated } = found.answer;
  show(list, element('p', { class: 'muted' }, `From ${found.server}.`),
    truncated ? notice('There is more: choose a shorter time.', 'warn') : null,
    (gaps ?? []).length > 0 ? notice(`The server remembers with gaps: ${gaps.map(gapText).join('; ')}`, 'warn') : null,
    history.length === 0 ? notice('Nothing has happened, as far as the server remembers.')
      : table(`History of ${subject}: ${number(history.length)}`, COLUMNS, history.map(row)));
}

function gapText(gap) {
  if (typeof gap !== 'object' || gap === null) return String(gap);
  return Object.entries(gap).map(([name, value]) => `${name} ${name.endsWith('_ms') ? time(value) : value}`).join(', ');
}

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
