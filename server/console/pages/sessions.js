// Sessions: where they come from, what they hold, and ending one.

import { follow, get, post } from './api.js';
import { announce, button, dialog, element, field, notice, paging, show, table } from './dom.js';
import { age, milliseconds, number, plural, time } from './text.js';
import { treeLink } from './tree.js';

const LIMIT = 100;
const COLUMNS = [['Session'], ['Client'], ['Server'], ['Connected for'], ['Timeout', true], ['Requests', true],
  ['Ephemeral znodes'], ['Watches'], ['Actions']];

export async function start(page, context) {
  const filter = element('input', { id: 'filter', value: context.parameters.get('filter') ?? '', spellcheck: 'false' });
  const parts = { filter, offset: 0, list: element('div'), notes: element('div'), context };
  filter.addEventListener('input', () => { parts.offset = 0; draw(parts); });
  show(page, field('Filter', filter, 'a part of the id, the address or a path'), parts.notes, parts.list);
  await draw(parts);
  follow({ topic: 'ticks' }, { tick: () => draw(parts) });
}

async function draw(parts) {
  const asked = (parts.asked = (parts.asked ?? 0) + 1);
  try {
    const answer = await get('sessions', { offset: parts.offset, limit: LIMIT, filter: parts.filter.value });
    if (asked !== parts.asked) return;
    // A list in which somebody moves by keyboard stays as it is, unless a session is about to leave it.
    if (parts.list.contains(document.activeElement) && parts.isDrawn && !parts.leaving) return;
    if (!answer.sessions.some((it) => it.id === parts.leaving)) parts.leaving = null;
    parts.isDrawn = true;
    show(parts.notes, answer.notes.length === 0 ? null : element('div', { class: 'notice warn' },
      element('p', {}, 'Something may be missing:'), element('ul', {}, answer.notes.map((it) => element('li', {}, it)))));
    const rows = answer.sessions.map((session) => row(session, answer.nowMs, parts));
    show(parts.list, table(`Sessions: ${number(answer.matching)} of ${number(answer.total)}`, COLUMNS, rows),
      paging(parts.offset, LIMIT, answer.matching, (at) => { parts.offset = at; parts.isDrawn = false; draw(parts); }));
  } catch (error) {
    show(parts.list, notice(error.message, 'bad'));
  }
}

function row(session, nowMs, parts) {
  const it = session.connection;
  return [
    element('a', { href: `/console/history?session=${session.id}` }, session.id),
    it ? it.address : element('span', { class: 'muted' }, 'not connected'),
    it?.server,
    it?.sinceMs ? element('span', { title: `since ${time(it.sinceMs)}` }, age(nowMs - it.sinceMs)) : null,
    it ? milliseconds(it.timeoutMs) : null,
    it ? number(it.received) : null,
    paths(session.ephemeralCount, session.ephemerals, 'ephemeral znode'),
    paths(session.watchCount, session.watches, 'watch', 'watches'),
    closing(session, parts),
  ];
}

function closing(session, parts) {
  if (parts.context.isLoggedIn) return button('Close…', () => close(session, parts), 'bad');
  return parts.context.session.logins ? 'log in to close' : 'read-only console';
}

function paths(count, first, one, many) {
  if (count === 0) return 'none';
  const rest = count > first.length ? element('li', {}, `and ${number(count - first.length)} more`) : null;
  return element('details', {}, element('summary', {}, plural(count, one, many)),
    element('ul', {}, first.map((path) => element('li', {}, treeLink(path))), rest));
}

function close(session, parts) {
  const text = `Its client gets an error, and ${plural(session.ephemeralCount, 'ephemeral znode')} of it will be deleted.`;
  dialog(`Close the session ${session.id}?`, [element('p', {}, text)], 'Close the session', async () => {
    await post('close', { session: session.id });
    // The servers may take a moment to end it.
    parts.leaving = session.id;
    announce(`The session ${session.id} was closed.`, 'good');
    parts.isDrawn = false;
    draw(parts);
  }, 'bad');
}
