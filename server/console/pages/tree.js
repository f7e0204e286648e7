// The tree: going to a path, finding names, the children of a znode, and the znode itself.

import { follow, get } from './api.js';
import { element, field, notice, paging, show, table } from './dom.js';
import { number, plural } from './text.js';
import { showZnode } from './znode.js';

const LIMIT = 100;

/** The address of a path's page. */
export function treeLink(path, text = path) {
  return element('a', { class: 'path', href: `/console/tree?path=${encodeURIComponent(path)}` }, text);
}

export async function start(page, context) {
  const path = context.parameters.get('path') || '/';
  document.title = `${path} – tree – zoolet console`;
  const parts = { path, offset: 0, filter: '', list: element('div'), znode: element('div'), found: element('div') };
  show(page, crumbs(path), forms(parts),
    element('div', { class: 'columns' },
      element('section', { 'aria-labelledby': 'children' }, element('h2', { id: 'children' }, 'Children'),
        filterForm(parts), parts.list),
      element('section', { 'aria-labelledby': 'znode' },
        element('h2', { id: 'znode' }, 'Znode ', element('span', { class: 'path' }, path)), parts.znode)));
  await Promise.all([list(parts), showZnode(parts.znode, path, context)]);
  follow({ path }, {
    changed: () => { list(parts); showZnode(parts.znode, path, context, true); },
  });
}

function crumbs(path) {
  const names = path === '/' ? [] : path.slice(1).split('/');
  const items = [['/', 'root'], ...names.map((name, at) => [`/${names.slice(0, at + 1).join('/')}`, name])];
  return element('nav', { 'aria-label': 'Path', class: 'crumbs' }, element('ol', {}, items.map(([to, name], at) => {
    const link = treeLink(to, name);
    if (at === items.length - 1) link.setAttribute('aria-current', 'location');
    return element('li', {}, link);
  })));
}

function forms(parts) {
  const to = element('input', { id: 'path', class: 'wide', value: parts.path, spellcheck: 'false' });
  const text = element('input', { id: 'text', spellcheck: 'false' });
  const go = element('form', { class: 'line' }, field('Path', to), element('button', {}, 'Go'));
  go.addEventListener('submit', (event) => {
    event.preventDefault();
    location.assign(`/console/tree?path=${encodeURIComponent(to.value.trim() || '/')}`);
  });
  const find = element('form', { class: 'line', role: 'search' },
    field('Find names below this znode', text), element('button', {}, 'Search'));
  find.addEventListener('submit', (event) => {
    event.preventDefault();
    search(parts, text.value.trim());
  });
  return element('div', {}, go, find, parts.found);
}

async function search(parts, text) {
  show(parts.found, notice('Searching…'));
  try {
    const { found, visited, refused, isComplete } = await get('search', { path: parts.path, text });
    const kind = isComplete ? '' : 'warn';
    const rest = refused > 0 ? `, ${plural(refused, 'znode')} could not be listed` : '';
    const end = isComplete ? '' : '; the search was cut: begin further down, or give more of the name';
    show(parts.found, element('div', { role: 'status' },
      notice(`${plural(found.length, 'znode')} found among ${number(visited)}${rest}${end}`, kind)),
    element('ul', { id: 'found' }, found.map((path) => element('li', {}, treeLink(path)))));
  } catch (error) {
    show(parts.found, notice(error.message, 'bad'));
  }
}

function filterForm(parts) {
  const filter = element('input', { id: 'filter', spellcheck: 'false' });
  filter.addEventListener('input', () => {
    parts.filter = filter.value;
    parts.offset = 0;
    list(parts);
  });
  return field('Filter', filter, 'a part of the name');
}

async function list(parts) {
  const { path, offset, filter } = parts;
  const asked = (parts.asked = (parts.asked ?? 0) + 1);
  try {
    const answer = await get('children', { path, offset, limit: LIMIT, filter });
    // An answer that was overtaken is left out.
    if (asked !== parts.asked) return;
    const rows = answer.children.map((child) => [treeLink(child.path, child.name),
      child.stat ? number(child.stat.numChildren) : child.problem ? 'not readable' : 'gone', child.stat ? number(child.stat.dataLength) : null,
      child.stat ? number(child.stat.version) : null, child.stat?.ephemeralOwner ? 'ephemeral' : '']);
    const columns = [['Name'], ['Children', true], ['Bytes', true], ['Version', true], ['Kind']];
    const caption = filter === '' ? `Children of ${path}: ${number(answer.total)}`
      : `Children of ${path} with “${filter}”: ${number(answer.matching)} of ${number(answer.total)}`;
    show(parts.list, rows.length ? table(caption, columns, rows) : element('p', { class: 'muted' }, 'No children.'),
      paging(offset, LIMIT, answer.matching, (at) => { parts.offset = at; list(parts); }));
  } catch (error) {
    show(parts.list, notice(error.message, 'bad'));
  }
}
