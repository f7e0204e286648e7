// One znode: its data, its numbers, its ACL, and what can be done to it.

import { get } from './api.js';
import { button, element, notice, show, table } from './dom.js';
import { createChild, editAcl, editData, remove } from './edit.js';
import { bytes, fromBase64, hexDump, number, time } from './text.js';

const HEX_BYTES = 4096;

/** Shows a znode in an element. With `isAgain`, one that looks the same is left as it is. */
export async function showZnode(parent, path, context, isAgain = false) {
  let znode;
  try {
    znode = await get('znode', { path });
  } catch (error) {
    show(parent, notice(error.status === 404 ? `There is no znode ${path}.` : error.message, 'bad'));
    delete parent.dataset.shown;
    return;
  }
  const shown = JSON.stringify(znode);
  if (isAgain && parent.dataset.shown === shown) return;
  parent.dataset.shown = shown;
  const again = () => showZnode(parent, path, context);
  show(parent, actions(znode, context, again), data(znode), facts(znode.stat), acl(znode),
    element('p', {}, element('a', { href: `/console/history?path=${encodeURIComponent(path)}` }, 'History of this path')));
}

function actions(znode, context, again) {
  if (!context.isLoggedIn) {
    const why = context.session.logins ? 'Log in to change it.' : 'This console is read-only.';
    return element('p', { class: 'muted' }, why);
  }
  const isOwn = znode.path === '/' || znode.path === '/zookeeper' || znode.path.startsWith('/zookeeper/');
  return element('div', { class: 'buttons' },
    znode.data && !znode.data.isTooLong ? button('Edit data', () => editData(znode, again)) : null,
    znode.stat.ephemeralOwner ? null : button('Create a child', () => createChild(znode.path)),
    znode.acl ? button('Edit ACL', () => editAcl(znode, again)) : null,
    isOwn ? null : button('Delete', () => remove(znode), 'bad'));
}

function data(znode) {
  if (!znode.data) return notice(znode.dataProblem, 'warn');
  const { length, text, base64, isTooLong } = znode.data;
  const caption = element('h3', {}, `Data (${bytes(length)}${base64 ? ', not text' : ''})`);
  if (isTooLong) return element('div', {}, caption, notice('The data is too long to be shown.', 'warn'));
  if (length === 0) return element('div', {}, caption, element('p', { class: 'muted' }, 'Empty.'));
  if (text !== undefined) {
    return element('div', {}, caption, element('pre', { id: 'data', tabindex: '0', 'aria-label': 'Data' }, text));
  }
  return element('div', {}, caption, hex(fromBase64(base64)));
}

function hex(data) {
  const dump = element('pre', { id: 'data', class: 'hex', tabindex: '0', 'aria-label': 'Data as hexadecimal numbers' });
  const place = element('span', { class: 'muted' });
  const to = (from) => {
    dump.textContent = hexDump(data, from, HEX_BYTES);
    place.textContent = `bytes ${number(from)} to ${number(Math.min(from + HEX_BYTES, data.length))} of ${number(data.length)}`;
    previous.disabled = from === 0;
    next.disabled = from + HEX_BYTES >= data.length;
    at = from;
  };
  let at = 0;
  const previous = button('Previous bytes', () => to(at - HEX_BYTES));
  const next = button('Next bytes', () => to(at + HEX_BYTES));
  to(0);
  return element('div', {}, dump,
    data.length > HEX_BYTES ? element('div', { class: 'buttons' }, previous, place, next) : null);
}

function facts(stat) {
  const owner = stat.ephemeralOwner
    ? element('a', { href: `/console/sessions?filter=${stat.ephemeralOwner}` }, stat.ephemeralOwner) : 'none';
  const all = [
    ['Version of the data', stat.version], ['Version of the ACL', stat.aversion],
    ['Version of the children', stat.cversion], ['Children', number(stat.numChildren)],
    ['Created', time(stat.ctimeMs)], ['Changed', time(stat.mtimeMs)],
    ['Created by', stat.czxid], ['Changed by', stat.mzxid], ['Children changed by', stat.pzxid],
    ['Ephemeral owner', owner],
  ];
  return element('div', {}, element('h3', {}, 'Stat'), element('dl', { class: 'facts' },
    all.map(([name, value]) => [element('dt', {}, name), element('dd', {}, value)])));
}

function acl(znode) {
  const title = element('h3', {}, 'ACL');
  if (!znode.acl) return element('div', {}, title, notice(znode.aclProblem, 'warn'));
  const rows = znode.acl.map((entry) => [entry.scheme, entry.id, entry.perms]);
  return element('div', {}, title, table('Who may do what', [['Scheme'], ['Id'], ['Permissions']], rows));
}
