'use strict';

// Every page as it looks without a login, in one scheme of colors.

const { check, equal, until } = require('./harness');
const { MANY, SCRIPT } = require('./scene');

async function run(world, browser, scheme) {
  const page = await browser.page(scheme);
  const keep = (name) => browser.keep(page, `${name}-${scheme}`);
  await ensemble(world, browser, page, keep);
  await tree(world, browser, page, keep);
  await sessions(world, browser, page, keep);
  await locks(world, browser, page, keep);
  await history(world, browser, page, keep);
  await page.context().close();
}

async function ensemble({ servers }, browser, page, keep) {
  await browser.show(page, '');
  equal(await page.textContent('h1'), 'Ensemble', 'the first page');
  equal(await page.getAttribute('#pages a[aria-current=page]', 'href'), '/console/ensemble', 'where we are');
  const rows = page.locator('table').first().locator('tbody tr');
  equal(await rows.count(), servers.length, 'a row for each server');
  // A leader whose machine starts a browser may have been without its ensemble for a moment.
  await until('one leads, and the summary says it', async () => {
    const roles = await rows.locator('td:nth-child(2)').allTextContents();
    const leaders = roles.filter((role) => role === 'leader' || role === 'standalone');
    return leaders.length === 1 && (await page.textContent('#summary')).includes('leads');
  });
  check((await page.locator('svg[role=img]').first().getAttribute('aria-label')).includes('Roles of'), 'the timeline has a title');
  const before = await page.textContent('#summary');
  await until('the page is live', async () => (await page.textContent('#summary')) !== before && (await page.textContent('#live')) === 'Live');
  await keep('ensemble');
  await page.keyboard.press('Tab');
  equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content', 'the first stop of the keyboard');
  await page.keyboard.press('Enter');
  equal(await page.evaluate(() => document.activeElement.id), 'main', 'the content is next');
}

async function tree({ first }, browser, page, keep) {
  await browser.show(page, 'tree?path=/app');
  equal(await page.textContent('#pages + *, #login p'), 'Read-only', 'no login');
  equal(await page.locator('button', { hasText: 'Edit data' }).count(), 0, 'nothing to change');
  await keep('tree');
  await page.fill('#filter', 'conf');
  await until('the filter', async () => (await page.locator('section table').first().locator('tbody tr').count()) === 1);
  await page.click('a.path >> text=config');
  await page.waitForSelector('#data');
  equal(await page.textContent('#data'), '{"on": true}', 'the data');
  await page.fill('#text', 'TWO');
  await page.keyboard.press('Escape');
  await browser.show(page, 'tree?path=/');
  await page.fill('#text', 'TWO');
  await page.press('#text', 'Enter');
  await page.waitForSelector('#found li');
  equal(await page.locator('#found li').allTextContents(), ['/app/deep/one/two'], 'what is found');
  await keep('search');
  await page.click('#found a');
  await page.waitForURL(/two/);
  await pagesOfChildren(browser, page);
  await data(browser, page, keep);
  await live(first, browser, page);
}

async function pagesOfChildren(browser, page) {
  await browser.show(page, 'tree?path=/app/many');
  const list = page.locator('section[aria-labelledby=children]');
  check((await list.locator('caption').textContent()).includes(String(MANY)), 'how many there are');
  equal(await list.locator('tbody tr').count(), 100, 'a page of them');
  await list.locator('button', { hasText: 'Next' }).click();
  await until('the second page', async () => (await list.locator('.buttons').textContent()).includes('101 to 200 of 250'));
  check((await list.locator('tbody tr').first().textContent()).includes('child-0100'), 'in the order of names');
  equal(await page.evaluate(() => document.activeElement.textContent), 'Next', 'the button keeps the keyboard');
}

async function data(browser, page, keep) {
  await browser.show(page, 'tree?path=/app/binary');
  check((await page.textContent('#data')).startsWith('00000000  00 01 02'), 'bytes as numbers');
  await page.click('button >> text=Next bytes');
  check((await page.textContent('#data')).startsWith('00001000'), 'further bytes');
  await keep('binary');
  await browser.show(page, 'tree?path=/app/script');
  equal(await page.textContent('#data'), SCRIPT, 'markup is text');
  equal(await page.locator('#page img, #page script').count(), 0, 'and nothing else');
  await browser.show(page, 'tree?path=/app/secret');
  check((await page.textContent('section[aria-labelledby=znode]')).includes('NoAuth'), 'what may not be read');
  await browser.show(page, `tree?path=${encodeURIComponent('/app/größe ü')}`);
  equal(await page.textContent('#data'), 'grüße', 'other letters');
  await browser.show(page, 'tree?path=/absent');
  check((await page.textContent('#page')).includes('There is no znode /absent'), 'no znode');
}

async function live(first, browser, page) {
  await browser.show(page, 'tree?path=/app/deep/one');
  await until('the stream is open', async () => (await page.textContent('#live')) === 'Live');
  const written = `written at ${Date.now()}`;
  await first.call('setData', '/app/deep/one', Buffer.from(written), -1);
  await until('the change shows by itself', async () => (await page.locator('#data').count()) === 1 && (await page.textContent('#data')) === written);
}

async function sessions({ first }, browser, page, keep) {
  await browser.show(page, `sessions?filter=${first.id}`);
  const row = page.locator('tbody tr');
  equal(await row.count(), 1, 'one session of this id');
  const text = await row.textContent();
  check(text.includes(first.id) && text.includes('127.0.0.1') && text.includes('4 ephemeral znodes'), text);
  await row.locator('summary').first().click();
  check((await row.textContent()).includes('/locks/report/'), 'its ephemeral znodes');
  check(text.includes('log in to close'), 'nothing to change');
  await keep('sessions');
}

async function locks({ first, second }, browser, page, keep) {
  await browser.show(page, 'locks?path=/locks');
  equal(await page.textContent('#summary'), '2 locks, 2 waiting', 'the summary');
  const turns = await deadlock(page);
  check(turns.some((it) => it.startsWith(`${first.id} (127.0.0.1:`) && it.endsWith(') holds /locks/report, waits for /locks/other')), turns.join());
  check(turns.some((it) => it.startsWith(second.id) && it.endsWith(' holds /locks/other, waits for /locks/report')), turns.join());
  const report = page.locator('section', { hasText: '/locks/report' }).first();
  const rows = report.locator('tbody tr');
  check((await rows.nth(0).textContent()).includes(first.id), 'the holder');
  check((await rows.nth(1).textContent()).includes(second.id), 'the first in the queue');
  const titles = await page.locator('svg[role=img]').evaluateAll((all) => all.map((it) => it.getAttribute('aria-label')));
  check(titles.some((it) => it.startsWith('Graph of waits between 2 sessions')), `the graph: ${titles}`);
  check(titles.some((it) => it.startsWith('Holders of /locks/report')), 'the holders over time');
  await graph(page);
  await keep('locks');
  await browser.show(page, 'locks?path=/pool');
  equal(await page.textContent('#summary'), '2 locks, 2 waiting', 'a semaphore and its queue are one lock');
  const pool = await deadlock(page);
  check(pool.some((it) => it.startsWith(first.id) && it.endsWith(' holds /pool/permits, waits for /pool/lock')), pool.join());
  check(pool.some((it) => it.startsWith(second.id) && it.endsWith(' holds /pool/lock, waits for /pool/permits')), pool.join());
}

/** The graph was cut off at the left, its arrows were behind boxes, and no lock had its name in it. */
async function graph(page) {
  const seen = await page.locator('#waits').evaluate((picture) => {
    const { width, height } = picture.viewBox.baseVal;
    const boxes = [...picture.querySelectorAll('rect.node')].map((it) => it.getBBox());
    const isIn = ({ x, y }, box) => x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height;
    const edges = [...picture.querySelectorAll('path.edge')];
    const texts = [...picture.querySelectorAll('text.lock')];
    const isWhole = [...edges, ...texts].every((it) => {
      const box = it.getBBox();
      return box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= height;
    });
    const isHidden = edges.some((it) => boxes.some((box) => isIn(it.getPointAtLength(it.getTotalLength() - 3), box)));
    return { isWhole, isHidden, edges: edges.length, arrows: edges.filter((it) => it.getAttribute('marker-end')).length,
      locks: texts.map((it) => it.textContent).sort() };
  });
  check(seen.isWhole && !seen.isHidden, JSON.stringify(seen));
  equal(seen.arrows, seen.edges, 'an arrow for each edge');
  equal(seen.locks.join(), '/locks/other,/locks/report', 'the names of the locks');
}

/** The turns of the deadlock that a page shows. */
async function deadlock(page) {
  check((await page.textContent('#page')).includes('Deadlock of 2 sessions, each waits for the next one'), 'each waits for the other');
  const turns = await page.locator('[role=alert] li').allTextContents();
  equal(turns.length, 2, `one turn for each session: ${turns}`);
  return turns;
}

async function history({ first, second, superuser }, browser, page, keep) {
  await browser.show(page, 'history?path=/app/config');
  const text = await page.textContent('#page');
  const isKept = text.includes('History of /app/config');
  // A console at a server's own port reads the history of that server.
  check(isKept || (!superuser && text.includes('This server keeps no history')), text);
  if (superuser) check(text.includes('created') && text.includes('127.0.0.1'), text);
  await keep('history');
  if (!isKept) return;
  // Events were all that it showed of a lock.
  await browser.show(page, 'history?lock=/locks/report');
  const rows = page.getByRole('region', { name: 'Turns of /locks/report: 2' }).locator('tbody tr');
  const [holder, waiter] = await rows.allTextContents();
  check(holder.includes(first.id) && /\d\d:\d\d:\d\d UTC/.test(holder) && holder.includes('holds'), holder);
  check(waiter.includes(second.id) && waiter.includes('waits'), waiter);
  await browser.show(page, 'history?lock=/pool/permits');
  check((await page.textContent('#no-turns')).includes('not of semaphores'), 'a semaphore has no turns');
}

module.exports = { run };
