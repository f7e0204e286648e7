// Changing a znode. Every change expects the version that was shown; a conflict shows both.

import { get, post } from './api.js';
import { announce, button, dialog, element, field, notice, show } from './dom.js';
import { fromBase64, fromHex, hexDump, number, plural, time, toBase64 } from './text.js';

function inputArea(id, value) {
  const area = element('textarea', { id, spellcheck: 'false' });
  area.value = value;
  return area;
}

const digitsOf = (data) => Array.from(data, (byte) => byte.toString(16).padStart(2, '0')).join(' ');

/** What a field with data holds, as the API takes it. */
function sentData(text, isHex) {
  if (!isHex) return { text };
  const data = fromHex(text);
  if (data === null) throw new Error('The data is expected as pairs of hexadecimal digits.');
  return { base64: toBase64(data) };
}

export function editData(znode, again) {
  const isHex = znode.data.base64 !== undefined;
  const area = inputArea('new-data', isHex ? digitsOf(fromBase64(znode.data.base64)) : znode.data.text);
  let version = znode.stat.version;
  const conflict = element('div');
  const label = isHex ? 'Data, as hexadecimal digits' : 'Data';
  dialog(`Edit the data of ${znode.path}`, [field(label, area), conflict], 'Save', async () => {
    try {
      await post('set', { path: znode.path, version, ...sentData(area.value, isHex) });
    } catch (error) {
      if (error.status === 409 && error.body.present) {
        version = error.body.present.stat.version;
        showConflict(conflict, error.body.present);
        error.isShown = true;
      }
      throw error;
    }
    announce(`The data of ${znode.path} was saved.`, 'good');
    again();
  });
}

function showConflict(place, present) {
  const { data, stat } = present;
  const text = data?.text ?? (data?.base64 ? hexDump(fromBase64(data.base64), 0, 65536) : '');
  show(place, element('div', { role: 'alert' }, notice(
    `Somebody else has changed it, at ${time(stat.mtimeMs)}: it has version ${stat.version} now. `
    + 'Yours is above, theirs is below. Save again to overwrite theirs, or cancel.', 'warn')),
  element('h3', {}, 'What is there now'),
  element('pre', { id: 'theirs', tabindex: '0', 'aria-label': 'What is there now' }, text));
}

export function createChild(parent) {
  const name = element('input', { id: 'new-name', required: true, spellcheck: 'false' });
  const mode = element('select', { id: 'new-mode' },
    element('option', { value: 'persistent' }, 'Persistent'),
    element('option', { value: 'sequential' }, 'Persistent, numbered'),
    element('option', { value: 'container' }, 'Container'));
  const area = inputArea('new-data', '');
  dialog(`Create a child of ${parent}`, [field('Name', name), field('Kind', mode), field('Data', area)], 'Create',
    async () => {
      const path = parent === '/' ? `/${name.value}` : `${parent}/${name.value}`;
      const made = await post('create', { path, mode: mode.value, text: area.value });
      location.assign(`/console/tree?path=${encodeURIComponent(made.path)}`);
    });
}

const PERMISSIONS = [['c', 'create'], ['d', 'delete'], ['r', 'read'], ['w', 'write'], ['a', 'admin']];

export function editAcl(znode, again) {
  const list = element('div');
  let count = 0;
  const add = (entry) => {
    count += 1;
    const id = `acl-${count}`;
    const line = element('fieldset', {}, element('legend', {}, `Entry ${count}`),
      field('Scheme', element('input', { id: `${id}-scheme`, name: 'scheme', value: entry.scheme, required: true })),
      field('Id', element('input', { id: `${id}-id`, name: 'id', value: entry.id, spellcheck: 'false' })),
      PERMISSIONS.map(([letter, word]) => element('label', {},
        element('input', { type: 'checkbox', value: letter, checked: entry.perms.includes(letter) }), ` ${word}`)),
      button('Remove this entry', () => line.remove()));
    list.append(line);
  };
  znode.acl.forEach(add);
  const more = button('Add an entry', () => add({ scheme: 'digest', id: '', perms: 'cdrwa' }));
  let version = znode.stat.aversion;
  dialog(`Edit the ACL of ${znode.path}`, [list, more], 'Save', async (form, problem) => {
    const acl = Array.from(list.querySelectorAll('fieldset'), (line) => ({
      scheme: line.querySelector('[name=scheme]').value.trim(),
      id: line.querySelector('[name=id]').value.trim(),
      perms: Array.from(line.querySelectorAll(':checked'), (box) => box.value).join(''),
    }));
    try {
      await post('acl', { path: znode.path, version, acl });
    } catch (error) {
      if (error.status === 409 && error.body.present?.acl) {
        version = error.body.present.stat.aversion;
        const theirs = error.body.present.acl.map((it) => `${it.scheme}:${it.id}:${it.perms}`).join('\n');
        show(problem, notice('Somebody else has changed the ACL. Theirs is below; save again to overwrite it.', 'warn'),
          element('pre', { id: 'theirs', tabindex: '0', 'aria-label': 'The ACL that is there now' }, theirs));
        error.isShown = true;
      }
      throw error;
    }
    announce(`The ACL of ${znode.path} was saved.`, 'good');
    again();
  });
}

export async function remove(znode) {
  const { path } = znode;
  let found;
  try {
    found = await get('subtree', { path });
  } catch (error) {
    announce(error.message, 'bad');
    return;
  }
  const name = path.split('/').at(-1);
  if (found.isTooLarge) {
    announce(`${path} has more than ${number(found.max)} znodes below it: delete it with zooletctl deleteall.`, 'bad');
    return;
  }
  const typed = element('input', { id: 'typed-name', autocomplete: 'off', spellcheck: 'false', required: true });
  const fields = found.below === 0
    ? [element('p', {}, `It has no children, and version ${znode.stat.version}.`)]
    : [element('p', {}, element('strong', { class: 'bad' }, `${plural(found.below, 'znode')} below it will be deleted as well`),
      ', all together or none.'),
    element('ul', {}, found.first.map((it) => element('li', { class: 'path' }, it)),
      found.below > found.first.length ? element('li', {}, `and ${number(found.below - found.first.length)} more`) : null),
    field(`Type ${name} to confirm`, typed)];
  dialog(`Delete ${path}?`, fields, 'Delete', async () => {
    await post('delete', { path, version: znode.stat.version, below: found.below, name: typed.value });
    const parent = path.slice(0, path.lastIndexOf('/')) || '/';
    location.assign(`/console/tree?path=${encodeURIComponent(parent)}`);
  }, 'bad');
}
