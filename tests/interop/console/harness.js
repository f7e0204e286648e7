'use strict';

// Checks that count, the browser, and znodes that other clients make.

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { chromium } = require('playwright-core');
const zookeeper = require('node-zookeeper-client');

// Bounds the wait for something that is on its way, on a busy machine.
const SOON_MS = 30_000;

const AXE = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

let count = 0;

function checks() {
  return count;
}

function check(right, what) {
  assert.ok(right, what);
  count += 1;
}

function equal(found, expected, what) {
  assert.deepStrictEqual(found, expected, `${what}: found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
  count += 1;
}

/** Waits until something is so. */
async function until(what, look) {
  for (const end = Date.now() + SOON_MS; ;) {
    const found = await look();
    if (found) {
      count += 1;
      return found;
    }
    assert.ok(Date.now() < end, `${what}: not within ${SOON_MS} ms`);
    await sleep(100);
  }
}

/** A client of the ensemble, with calls as promises. */
async function client(servers) {
  const made = zookeeper.createClient(servers, { sessionTimeout: 30_000 });
  await new Promise((resolve, reject) => {
    made.once('connected', resolve);
    setTimeout(() => reject(new Error('no session')), SOON_MS).unref();
    made.connect();
  });
  const call = (name, ...words) => new Promise((resolve, reject) => {
    made[name](...words, (error, result, stat) => (error ? reject(error) : resolve(stat ? [result, stat] : result)));
  });
  const id = `0x${made.getSessionId().toString('hex').replace(/^0+/, '')}`;
  return { id, call, close: () => made.close() };
}

/** The browser, with pages that fail on an error of a script or of the content security policy. */
class Browser {
  constructor(url, shots, browser) {
    Object.assign(this, { url, shots, browser });
  }

  static async open(url, program, shots) {
    fs.mkdirSync(shots, { recursive: true });
    const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-gpu'] });
    return new Browser(url, shots, browser);
  }

  async page(colorScheme) {
    const context = await this.browser.newContext({ colorScheme, viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    this.latest = page;
    page.setDefaultTimeout(SOON_MS);
    page.problems = [];
    page.on('pageerror', (error) => page.problems.push(`error: ${error.message}`));
    page.on('dialog', (box) => { page.problems.push(`a box: ${box.message()}`); box.dismiss(); });
    page.on('console', (line) => {
      if (line.type() === 'error' && !/status of (4|5)/.test(line.text())) page.problems.push(line.text());
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(this.url)) page.problems.push(`a request to ${request.url()}`);
    });
    return page;
  }

  /** Opens a page of the console and waits until it is drawn. */
  async show(page, name) {
    await page.goto(`${this.url}/console/${name}`);
    await page.waitForSelector('html[data-ready]');
  }

  /** Checks a page as it is now: accessibility, and no errors; and keeps a picture of it. */
  async keep(page, name) {
    // The page's own policy forbids scripts from elsewhere, which this way is not one of.
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    const shown = violations.map((it) => `${it.id} (${it.impact}): ${it.help}\n  ${it.nodes.map((node) => `${node.html}\n  ${node.failureSummary}`).join('\n  ')}`);
    await page.screenshot({ path: path.join(this.shots, `${name}.png`), fullPage: true });
    equal(shown, [], `${name}: accessibility`);
    equal(page.problems, [], `${name}: errors`);
  }

  /** What the newest page shows, for the report of a failure. */
  async shown() {
    if (!this.latest || this.latest.isClosed()) return 'no page is open';
    await this.latest.screenshot({ path: path.join(this.shots, 'failure.png'), fullPage: true });
    return `${this.latest.url()} shows:\n${await this.latest.innerText('body')}`;
  }

  close() {
    return this.browser.close();
  }
}

module.exports = { Browser, check, checks, client, equal, sleep, until };
