'use strict';

// What a user does who is logged in.

const { check, equal, sleep, until } = require('./harness');

// `first` is a client of another server than the console's, which may be behind: it waits for what the
// console has written.
async function run(world, browser) {
  const page = await browser.page('light');
  await login(browser, page);
  await data(world, browser, page);
  await create(world, browser, page);
  await acl(world, browser, page);
  await pressed(world, browser, page);
  await remove(world, browser, page);
  await handOver(world, browser, page);
  await refusedClose(world, browser, page);
  await page.click('button >> text=Log out');
  await until('logged out', async () => (await page.locator('#login >> text=Read-only').count()) === 1);
  if (world.superuser) await close(world, browser, page);
  await page.context().close();
}

async function enter(page, user, password) {
  await page.fill('#user', user);
  await page.fill('#password', password);
  await page.keyboard.press('Enter');
  await page.waitForSelector('button >> text=Log out');
  await page.waitForSelector('html[data-ready]');
}

async function login(browser, page) {
  await browser.show(page, 'tree?path=/app/config');
  await page.click('button >> text=Log in');
  equal(await page.evaluate(() => document.activeElement.id), 'user', 'the dialog takes the keyboard');
  await browser.keep(page, 'login-light');
  await page.keyboard.press('Escape');
  await until('Escape closes it', async () => (await page.locator('dialog').count()) === 0);
  await until('and gives the keyboard back', async () => (await page.evaluate(() => document.activeElement.textContent)) === 'Log in');
  await page.keyboard.press('Enter');
  await enter(page, 'bob', 'bobsecret');
  equal(await page.locator('#login >> text=digest:bob').count(), 1, 'who is logged in');
  check(!page.url().includes('bob'), 'no secret in the address');
}

async function data({ first }, browser, page) {
  await browser.show(page, 'tree?path=/app/config');
  await page.click('button >> text=Edit data');
  await page.fill('#new-data', '{"on": false}');
  await browser.keep(page, 'edit-light');
  await page.click('dialog button >> text=Save');
  await until('saved', async () => (await page.textContent('#data')) === '{"on": false}');
  await until('what other clients see', async () => (await first.call('getData', '/app/config'))[0].toString() === '{"on": false}');

  await page.click('button >> text=Edit data');
  await page.fill('#new-data', 'mine');
  await first.call('setData', '/app/config', Buffer.from('theirs'), -1);
  await page.click('dialog button >> text=Save');
  await page.waitForSelector('#theirs');
  equal([await page.textContent('#theirs'), await page.inputValue('#new-data')], ['theirs', 'mine'], 'a conflict shows both');
  equal((await first.call('getData', '/app/config'))[0].toString(), 'theirs', 'nothing was overwritten');
  await browser.keep(page, 'conflict-light');
  await page.click('dialog button >> text=Save');
  await until('overwritten', async () => (await first.call('getData', '/app/config'))[0].toString() === 'mine');

  await browser.show(page, 'tree?path=/app/binary');
  await page.click('button >> text=Edit data');
  await page.fill('#new-data', '00 ff 0');
  await page.click('dialog button >> text=Save');
  await until('half a byte', async () => (await page.textContent('dialog [role=alert]')).includes('pairs of hexadecimal digits'));
  await page.fill('#new-data', '00 ff 01');
  await page.click('dialog button >> text=Save');
  await until('bytes', async () => (await first.call('getData', '/app/binary'))[0].equals(Buffer.from([0, 255, 1])));
}

async function create({ first }, browser, page) {
  await browser.show(page, 'tree?path=/app');
  await page.click('button >> text=Create a child');
  await page.fill('#new-name', 'made');
  await page.fill('#new-data', 'by the console');
  await page.click('dialog button >> text=Create');
  await page.waitForURL(/made/);
  await until('other clients see it', async () => (await first.call('exists', '/app/made')) !== null);
  equal((await first.call('getData', '/app/made'))[0].toString(), 'by the console', 'what was created');
  await browser.show(page, 'tree?path=/app');
  await page.click('button >> text=Create a child');
  await page.fill('#new-name', 'made');
  await page.click('dialog button >> text=Create');
  await until('it exists', async () => (await page.textContent('dialog [role=alert]')).includes('NodeExists'));
  await page.keyboard.press('Escape');
}

async function acl({ first }, browser, page) {
  await browser.show(page, 'tree?path=/app/made');
  await page.click('button >> text=Edit ACL');
  await page.click('button >> text=Add an entry');
  await page.fill('#acl-2-id', 'bob:WGAwC+XYxdw8bJ5K6KcPh8oL58U=');
  await browser.keep(page, 'acl-light');
  await page.click('dialog button >> text=Save');
  await until('the ACL has two entries', async () => (await first.call('getACL', '/app/made'))[0].length === 2);
}

/** What changes between the press of a button and its release does not take the click away. */
async function pressed({ first }, browser, page) {
  const presses = {
    pointer: [() => page.mouse.down(), () => page.mouse.up()],
    // Another key that is released in between releases nothing else.
    'pointer with a key': [async () => { await page.keyboard.down('Shift'); await page.mouse.down(); await page.keyboard.up('Shift'); },
      () => page.mouse.up()],
    key: [() => page.keyboard.down('Space'), () => page.keyboard.up('Space')],
  };
  for (const [name, [press, release]] of Object.entries(presses)) {
    await browser.show(page, 'tree?path=/app/made');
    await until('the stream is open', async () => (await page.textContent('#live')) === 'Live');
    const button = page.locator('button >> text=Delete');
    await (name === 'key' ? button.focus() : button.hover());
    await press();
    const answer = page.waitForResponse(/api\/znode/);
    await first.call('setData', '/app/made', Buffer.from(`while the ${name} was pressed`), -1);
    await (await answer).finished();
    await sleep(200);
    await release();
    await page.waitForSelector('dialog');
    await until('the change is shown', async () => (await page.textContent('#data')) === `while the ${name} was pressed`);
    await page.keyboard.press('Escape');
    await until('the button has the keyboard again', async () => (await page.evaluate(() => document.activeElement.textContent)) === 'Delete');
  }
}

async function remove({ first }, browser, page) {
  await browser.show(page, 'tree?path=/app/deep');
  await page.click('button >> text=Delete');
  await page.waitForSelector('dialog');
  check((await page.textContent('dialog')).includes('2 znodes below it will be deleted as well'), 'what goes');
  await page.fill('#typed-name', 'deeper');
  await browser.keep(page, 'delete-light');
  await page.click('dialog button >> text=Delete');
  await until('the wrong name', async () => (await page.textContent('dialog [role=alert]')).includes('not "deep"'));
  await page.fill('#typed-name', 'deep');
  await first.call('create', '/app/deep/new', Buffer.alloc(0));
  await page.click('dialog button >> text=Delete');
  await until('one more than was shown', async () => (await page.textContent('dialog [role=alert]')).includes('3 znodes below it now'));
  check(await first.call('exists', '/app/deep/one'), 'nothing was deleted');
  await page.keyboard.press('Escape');
  await page.click('button >> text=Delete');
  await page.fill('#typed-name', 'deep');
  await page.click('dialog button >> text=Delete');
  await page.waitForURL(/path=%2Fapp$/);
  await until('all of it is gone', async () => (await first.call('exists', '/app/deep')) === null);
  await browser.show(page, 'tree?path=/zookeeper');
  equal(await page.locator('button', { hasText: 'Delete' }).count(), 0, 'what is the servers\' own');
}

/** The holder of a lock gives it up: the page shows the next one, and the graph has no circle any more. */
async function handOver({ first, second, held }, browser, page) {
  await browser.show(page, 'locks?path=/locks');
  await until('the stream is open', async () => (await page.textContent('#live')) === 'Live');
  await first.call('remove', held, -1);
  const row = page.locator('section', { hasText: '/locks/report' }).first().locator('tbody tr').first();
  await until('the next one holds it', async () => (await row.textContent()).includes(second.id));
  await until('no deadlock', async () => !(await page.textContent('#page')).includes('Deadlock'));
  await browser.keep(page, 'locks-after-light');
}

/** It takes more than a login to end the session of another client. */
async function refusedClose({ second }, browser, page) {
  await browser.show(page, `sessions?filter=${second.id}`);
  await page.click('button >> text=Close…');
  await page.click('dialog button >> text=Close the session');
  await until('it is refused', async () => /Not authorized|no HTTP port|Unknown command/.test(await page.textContent('dialog [role=alert]')));
  await browser.keep(page, 'close-light');
  await page.keyboard.press('Escape');
}

async function close({ second, superuser }, browser, page) {
  await browser.show(page, `sessions?filter=${second.id}`);
  await page.click('button >> text=Log in');
  await enter(page, ...superuser.split(':'));
  await page.click('button >> text=Close…');
  await page.click('dialog button >> text=Close the session');
  await until('no row any more', async () => (await page.locator('tbody tr').count()) === 0);
  await until('its locks are gone', async () => {
    await browser.show(page, 'locks?path=/locks');
    // The pictures of holders over time go on showing it.
    const rows = await page.locator('#page tbody').allTextContents();
    return !rows.join().includes(second.id);
  });
}

module.exports = { run };
