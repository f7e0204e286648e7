'use strict';

// Every page of the console at CONSOLE_URL, which shows the servers at ZK_CONNECT, in Chromium.

const { Browser, checks, client } = require('./harness');
const guards = require('./guards');
const pages = require('./pages');
const changes = require('./changes');
const elections = require('./elections');
const scene = require('./scene');

const LIMIT_MS = 8 * 60_000;

async function main() {
  setTimeout(() => {
    console.error(`no end after ${LIMIT_MS} ms`);
    process.exit(3);
  }, LIMIT_MS).unref();
  const { CONSOLE_URL: url, ZK_CONNECT: servers, CHROMIUM: program, SHOTS: shots } = process.env;
  const [control, superuser] = [process.env.ZOOLET_CTL, process.env.SUPERUSER];
  const [first, second] = await Promise.all([client(servers), client(servers)]);
  const world = { url, control, superuser, servers: servers.split(','), first, second, ...await scene.make(first, second) };
  await guards.run(world);
  const browser = await Browser.open(url, program, shots);
  try {
    for (const scheme of ['light', 'dark']) await pages.run(world, browser, scheme);
    await changes.run(world, browser);
    await elections.run(world, browser);
  } catch (error) {
    console.error(await browser.shown().catch((problem) => problem));
    throw error;
  } finally {
    await browser.close();
  }
  first.close();
  second.close();
  console.log(`OK ${checks()} checks`);
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
