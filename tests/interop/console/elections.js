'use strict';

// The leader is killed: the page shows the election as it happens.

const { execFileSync } = require('node:child_process');

const { check, equal, until } = require('./harness');

async function run({ control, servers }, browser) {
  if (!control) return;
  const ctl = (...words) => execFileSync(control, ['ctl', '--data-dir', process.env.DATA_DIR, ...words]);
  const page = await browser.page('dark');
  await browser.show(page, 'ensemble');
  await until('the stream is open', async () => (await page.textContent('#live')) === 'Live');
  const leader = (await page.textContent('#summary')).match(/([0-9.]+:[0-9]+) leads/)[1];
  const number = String(servers.indexOf(leader) + 1);
  ctl('kill', number);
  const elected = page.locator('h3', { hasText: '1 election' });
  await until('the election shows by itself', async () => (await elected.count()) === 1);
  const row = page.locator('table').nth(1).locator('tbody tr').first();
  check(!(await row.textContent()).includes(leader), 'another one leads');
  check((await page.locator('table').first().textContent()).includes('connection refused'), 'the killed one is named');
  equal(await page.locator('svg line.election').count(), 1, 'a mark on the timeline');
  await browser.keep(page, 'election-dark');
  ctl('start', number);
  await until('all serve', async () => (await page.textContent('#summary')).startsWith(`${servers.length} of ${servers.length}`));
  await page.context().close();
}

module.exports = { run };
