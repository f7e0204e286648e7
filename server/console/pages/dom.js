// Elements. What comes from the servers becomes text, never markup.

const SVG = 'http://www.w3.org/2000/svg';

/** Makes an element with attributes and children; a text becomes a text. */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Makes an element of a picture. */
export function shape(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

// What is pressed now, by pointer or key, and what is shown only when it is released: a button that is
// replaced between the press and the release receives no click.
const presses = new Map();
const waiting = new Map();
const CLICKABLE = 'button, a, summary, label, input';

// A tap is a click some time after it ends.
const TAP_MS = 500;

// Nothing waits for a release that does not come.
const PRESS_MS_MAX = 5000;

addEventListener('pointerdown', (event) => {
  if (event.isPrimary && event.button === 0) press(event.pointerId, event.target);
}, true);
addEventListener('keydown', (event) => {
  if (event.key === ' ' && !event.repeat) press('key', event.target);
}, true);
for (const name of ['pointerup', 'pointercancel']) {
  addEventListener(name, (event) => release(event.pointerId, event.pointerType === 'mouse' ? 0 : TAP_MS), true);
}
addEventListener('keyup', (event) => { if (event.key === ' ') release('key', 0); }, true);
for (const name of ['contextmenu', 'dragend', 'blur']) {
  addEventListener(name, () => [...presses.keys()].forEach((by) => release(by, 0)));
}

function press(by, target) {
  const pressed = target.closest?.(CLICKABLE);
  if (!pressed) return;
  presses.set(by, pressed);
  setTimeout(() => { if (presses.get(by) === pressed) release(by, 0); }, PRESS_MS_MAX);
}

/** The click comes first, then what has waited. */
function release(by, afterMs) {
  const pressed = presses.get(by);
  setTimeout(() => {
    if (presses.get(by) === pressed) presses.delete(by);
    for (const [parent, children] of waiting) show(parent, ...children);
  }, afterMs);
}

function isPressed(parent) {
  return [...presses.values()].some((pressed) => parent.contains(pressed));
}

/**
 * Replaces what is in an element, as soon as nothing in it is pressed. A link or a button that has the
 * keyboard keeps it.
 */
export function show(parent, ...children) {
  if (isPressed(parent)) {
    waiting.set(parent, children);
    return;
  }
  waiting.delete(parent);
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  if (focused && !focused.isConnected) inPlaceOf(focused, parent)?.focus({ preventScroll: true });
}

/** The element that is now what one that was replaced has been. */
function inPlaceOf(replaced, parent) {
  const isSame = (it) => it.getAttribute('href') === replaced.getAttribute('href') && it.id === replaced.id
    && it.textContent === replaced.textContent;
  return [...parent.querySelectorAll(replaced.tagName)].find(isSame);
}

/** A table: columns are `[title, is a number]`, rows lists of texts and elements. */
export function table(caption, columns, rows, rowClass = () => null) {
  const heads = columns.map(([title, isNumber]) =>
    element('th', { scope: 'col', class: isNumber ? 'number' : null }, title));
  const lines = rows.map((row, at) => element('tr', { class: rowClass(at) }, row.map((cell, column) => {
    const kind = column === 0 ? 'th' : 'td';
    const scope = column === 0 ? { scope: 'row' } : {};
    return element(kind, { ...scope, class: columns[column][1] ? 'number' : null }, cell ?? '–');
  })));
  return element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    element('table', {}, element('caption', {}, caption),
      element('thead', {}, element('tr', {}, heads)), element('tbody', {}, lines)));
}

/** A labelled field. */
export function field(label, input, hint = '') {
  const caption = element('label', { for: input.id }, label);
  if (hint) caption.append(' ', element('span', { class: 'hint' }, hint));
  return element('div', { class: 'field' }, caption, input);
}

export function button(text, onclick, kind = null) {
  return element('button', { type: 'button', class: kind, onclick }, text);
}

/** Opens a dialog with a form; `submit` is called with it, and an error stays in it. */
export function dialog(title, fields, action, submit, kind = 'main') {
  const problem = element('div', { role: 'alert' });
  const send = element('button', { type: 'submit', class: kind }, action);
  const cancel = button('Cancel', () => box.close());
  const form = element('form', {}, element('h2', { id: 'dialog-title' }, title), fields, problem,
    element('div', { class: 'buttons' }, send, cancel));
  const box = element('dialog', { 'aria-labelledby': 'dialog-title' }, form);
  const before = document.activeElement;
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    send.disabled = true;
    try {
      await submit(form, problem);
      box.close();
    } catch (error) {
      if (!error.isShown) show(problem, notice(error.message, 'bad'));
    } finally {
      send.disabled = false;
    }
  });
  box.addEventListener('close', () => {
    box.remove();
    (before?.isConnected === false ? inPlaceOf(before, document) : before)?.focus();
  });
  document.body.append(box);
  box.showModal();
  return box;
}

export function notice(text, kind = '') {
  return element('p', { class: `notice ${kind}` }, text);
}

/** Shows a message above the page; screen readers read it. */
export function announce(text, kind = '') {
  show(document.getElementById('notice'), notice(text, kind));
}

/** The pages of a long list; `go` is called with an offset. */
export function paging(offset, limit, count, go) {
  if (count <= limit && offset === 0) return null;
  const last = Math.min(offset + limit, count);
  const to = (text, at, isOff) => element('button',
    { type: 'button', disabled: isOff, onclick: () => go(at) }, text);
  return element('nav', { 'aria-label': 'Pages of the list', class: 'buttons' },
    to('Previous', Math.max(0, offset - limit), offset === 0),
    element('span', { class: 'muted' }, `${count === 0 ? 0 : offset + 1} to ${last} of ${count}`),
    to('Next', offset + limit, last >= count));
}
