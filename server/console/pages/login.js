// Logging in and out.

import { post } from './api.js';
import { button, dialog, element, field, show } from './dom.js';

export function showLogin(session) {
  const place = document.getElementById('login');
  if (session.identities !== null) {
    const names = session.identities.filter((identity) => !identity.startsWith('ip:'));
    show(place, element('p', {}, 'Logged in as ', element('strong', {}, names.join(', ') || 'unknown')),
      button('Log out', leave));
  } else if (session.logins) {
    const ways = [button('Log in', enter)];
    if (session.certificate) ways.unshift(button(`Log in as ${session.certificate}`, () => enterWithCertificate(session)));
    show(place, element('p', { class: 'muted' }, 'Read-only'), ...ways);
  } else {
    show(place, element('p', { class: 'muted' }, 'Read-only console'));
  }
}

export function enter() {
  const user = element('input', { id: 'user', name: 'user', autocomplete: 'username', required: true });
  const password = element('input',
    { id: 'password', name: 'password', type: 'password', autocomplete: 'current-password' });
  const hint = element('p', { class: 'muted' },
    'ZooKeeper takes every user and password; what they may do, the ACL of each znode decides.');
  dialog('Log in with digest', [field('User', user), field('Password', password), hint], 'Log in', async () => {
    await post('login', { user: user.value, password: password.value });
    location.reload();
  });
}

function enterWithCertificate(session) {
  const hint = element('p', {},
    'The browser has shown the certificate ', element('strong', {}, session.certificate),
    '. What its owner may do, the ACL of each znode decides.');
  dialog('Log in with the certificate', [hint], 'Log in', async () => {
    await post('login', { certificate: true });
    location.reload();
  });
}

async function leave() {
  await post('logout');
  location.reload();
}
