'use strict';

// What the console refuses, asked as no browser would.

const http = require('node:http');

const { check, equal } = require('./harness');

function ask(url, path, { method = 'GET', headers = {}, body = '' } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request(new URL(path, url), { method, headers }, (response) => {
      let text = '';
      response.on('data', (piece) => { text += piece; });
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    request.on('error', reject);
    request.end(body);
  });
}

async function run({ url }) {
  const host = new URL(url).host;
  const own = { 'X-Zoolet-Console': '1', Origin: url };
  const post = (name, headers, body = '{}') => ask(url, `/console/api/${name}`, { method: 'POST', headers, body });

  equal((await ask(url, '/console/ensemble', { headers: { Host: 'evil.example' } })).status, 421, 'a name that points here');
  equal((await ask(url, '/console/api/session', { headers: { Host: 'evil.example' } })).status, 421, 'the same of the API');
  equal((await ask(url, '/console/api/session', { headers: { Host: `localhost:${new URL(url).port}` } })).status, 200, 'localhost');
  equal((await post('login', { Origin: url })).status, 403, 'no header of a page');
  equal((await post('login', { 'X-Zoolet-Console': '1' })).status, 403, 'no origin');
  equal((await post('login', { ...own, Origin: 'http://evil.example' })).status, 403, 'another origin');
  equal((await post('set', own, '{"path":"/app/config","version":0,"text":"x"}')).status, 401, 'a change without a login');
  equal((await post('create', own, '{"path":"/made","text":"x"}')).status, 401, 'the same');
  equal((await post('delete', { ...own, Cookie: `zoolet_console_${new URL(url).port}=${'0'.repeat(64)}` }, '{"path":"/app","version":0}')).status, 401, 'a made-up token');
  equal((await post('login', own, 'x'.repeat((4 << 20) + 1))).status, 413, 'a long body');
  equal((await post('login', own, '{"user":"","password":"x"}')).status, 400, 'no user');
  equal((await ask(url, '/console/api/znode?path=app')).status, 400, 'no path');
  equal((await ask(url, '/console/api/znode?path=/absent')).status, 404, 'no znode');
  equal((await ask(url, '/console/api/nothing')).status, 404, 'no such answer');
  equal((await ask(url, '/console/files/%2e%2e/Cargo.toml')).status, 404, 'no such file');
  equal((await ask(url, '/console/', { method: 'PUT' })).status, 405, 'no such method');

  const page = await ask(url, '/console/ensemble');
  const policy = page.headers['content-security-policy'];
  check(policy.includes("default-src 'none'") && policy.includes("script-src 'self'") && !policy.includes('unsafe'), policy);
  equal([page.headers['x-frame-options'], page.headers['cache-control']], ['DENY', 'no-store'], 'headers');

  const login = await post('login', own, '{"user":"carol","password":"a secret"}');
  equal(login.status, 200, 'a login');
  const cookie = login.headers['set-cookie'][0];
  for (const word of ['HttpOnly', 'SameSite=Strict', 'Path=/console']) check(cookie.includes(word), `${word}: ${cookie}`);
  check(!login.text.includes('secret') && !cookie.includes('secret'), 'no secret comes back');
  const token = cookie.split(';')[0];
  const shown = await ask(url, '/console/api/session', { headers: { Cookie: token, Host: host } });
  check(JSON.parse(shown.text).identities.includes('digest:carol'), shown.text);
  equal((await post('set', { Cookie: token, Origin: url }, '{}')).status, 403, 'a login does not take the place of the header');
  equal((await post('logout', { ...own, Cookie: token })).status, 200, 'a logout');
  const after = await ask(url, '/console/api/session', { headers: { Cookie: token } });
  equal(JSON.parse(after.text).identities, null, 'the token has ended');
}

module.exports = { ask, run };
