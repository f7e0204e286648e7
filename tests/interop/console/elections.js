'use strict';

// The leader is killed: the page shows the election as it happens.

const { execFileSync } = require('node:child_process');

const { check, until } = require('./harness');

async function run({ control, servers }, browser) {
  if (!control) return;
  const ctl = (...words) => execFileSync(control, ['ctl', '--data-dir', process.env.DATA_DIR, ...words]);
  const page = await browser.page('dark');
  await browser.show(page, 'ensemble');
  await until('the stream is open', async () => (await page.textContent('#live')) === 'Live');
  const leader = (await page.textContent('#summary')).match(/([0-9.]+:[0-9]+) leads/)[1];
  const number = String(servers.indexOf(leader) + 1);
  // On a busy machine there may have been elections before.
  const rows = page.locator('table').nth(1).locator('tbody tr');
  const marks = page.locator('svg line.election');
  const before = [await rows.count(), await marks.count()];
  ctl('kill', number);
  await until('the election shows by itself', async () => (await rows.count()) > before[0]);
  check(!(await rows.first().textContent()).includes(leader), 'another one leads');
  check((await page.locator('table').first().textContent()).includes('connection refused'), 'the killed one is named');
  check((await marks.count()) > before[1], 'a mark on the timeline');
  await browser.keep(page, 'election-dark');
  ctl('start', number);
  await until('all serve', async () => (await page.textContent('#summary')).startsWith(`${servers.length} of ${servers.length}`));
  await page.context().close();
}

module.exports = { run };
