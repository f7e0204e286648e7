// Which page this is, and who looks at it.

import { get } from './api.js';
import { announce, element, notice, show } from './dom.js';
import { showLogin } from './login.js';

const PAGES = {
  ensemble: ['Ensemble', () => import('./ensemble.js')],
  tree: ['Tree', () => import('./tree.js')],
  sessions: ['Sessions', () => import('./sessions.js')],
  locks: ['Locks', () => import('./locks.js')],
  history: ['History', () => import('./history.js')],
};

async function start() {
  const name = location.pathname.split('/')[2] || 'ensemble';
  const [title, load] = PAGES[name] ?? PAGES.ensemble;
  document.title = `${title} – zoolet console`;
  document.getElementById('title').textContent = title;
  for (const link of document.querySelectorAll('#pages a')) {
    if (link.getAttribute('href') === `/console/${name}`) link.setAttribute('aria-current', 'page');
  }
  const page = document.getElementById('page');
  show(page, element('p', { class: 'muted' }, 'Loading…'));
  try {
    const [session, module] = await Promise.all([get('session'), load()]);
    showLogin(session);
    const parameters = new URLSearchParams(location.search);
    await module.start(page, { session, isLoggedIn: session.identities !== null, parameters });
  } catch (error) {
    show(page, notice(error.message, 'bad'));
    announce(`${title} cannot be shown`, 'bad');
  }
  document.documentElement.dataset.ready = 'yes';
}

start();
