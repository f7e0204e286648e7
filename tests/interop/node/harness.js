'use strict';

// Checks that count, calls as promises, and the lines that go to and come from
// the harness.

const assert = require('node:assert');
const net = require('node:net');
const readline = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const zookeeper = require('node-zookeeper-client');

const { Exception } = zookeeper;

// Long enough for an election on a busy machine: a lost server never costs a
// session.
const SESSION_MS = 10_000;
// Bounds the wait for something that is on its way.
const ON_ITS_WAY_MS = 20_000;

const servers = process.env.ZK_CONNECT.split(',');
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let count = 0;

function checks() {
  return count;
}

function giveUpAfter(limit) {
  setTimeout(() => {
    console.error(`no end after ${limit} ms`);
    process.exit(3);
  }, limit).unref();
}

// The first check that finds something wrong ends the program.
function check(right, what) {
  assert.ok(right, what);
  count += 1;
}

function equal(found, expected, what) {
  assert.deepStrictEqual(found, expected, `${what}: found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
  count += 1;
}

async function fails(call, code, what) {
  let result;
  try {
    result = await call;
  } catch (error) {
    equal(error.getName && error.getName(), Exception.create(code).getName(), what);
    return;
  }
  assert.fail(`${what}: no error but ${result}`);
}

async function soon(promise, what) {
  const late = new AbortController();
  const limit = sleep(ON_ITS_WAY_MS, undefined, { signal: late.signal }).then(() => assert.fail(`${what}: not within ${ON_ITS_WAY_MS} ms`));
  limit.catch(() => {});
  try {
    return await Promise.race([promise, limit]);
  } finally {
    late.abort();
  }
}

async function eventually(what, holds) {
  const deadline = Date.now() + ON_ITS_WAY_MS;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `${what}: not within ${ON_ITS_WAY_MS} ms`);
    await sleep(20);
  }
  count += 1;
}

async function connect(to = servers) {
  const client = zookeeper.createClient(to.join(','), { sessionTimeout: SESSION_MS, spinDelay: 100 });
  const connected = new Promise((resolve) => client.once('connected', resolve));
  client.connect();
  await soon(connected, 'connect');
  return client;
}

// Calls a method of the client or of a transaction. One result comes as itself,
// several as an array; an error that brings results keeps them.
function call(target, method, ...args) {
  return new Promise((resolve, reject) => {
    target[method](...args, (error, ...results) => {
      if (error) {
        reject(Object.assign(error, { call: `${method} ${args[0]}`, results: results[0] }));
      } else {
        resolve(results.length > 1 ? results : results[0]);
      }
    });
  });
}

// Repeats a call whose connection was lost under it. The calls made through it
// may run twice unharmed.
async function carried(target, method, ...args) {
  const deadline = Date.now() + ON_ITS_WAY_MS;
  for (;;) {
    try {
      return await call(target, method, ...args);
    } catch (error) {
      if (error.code !== Exception.CONNECTION_LOSS || Date.now() > deadline) {
        throw error;
      }
      await sleep(50);
    }
  }
}

// A watcher, and the promise of the event that it receives.
function watcher() {
  let fire;
  const fired = new Promise((resolve) => {
    fire = resolve;
  });
  const watch = (event) => fire([event.getName(), event.getPath()]);
  return { watch, fired };
}

// Two clients are at different servers: the reader's may be behind the writer's.
// The library has no sync, so what is expected is looked for.
async function seen(client, path) {
  await eventually(`${path} is seen`, async () => (await call(client, 'exists', path)) !== null);
}

function sessionOf(client) {
  return client.getSessionId().toString('hex');
}

// Sends a four-letter word; a server that is not there answers nothing.
function ask(server, word) {
  const [host, port] = server.split(':');
  return new Promise((resolve) => {
    let answer = '';
    const socket = net.connect({ host, port: Number(port) }, () => socket.write(word));
    socket.setTimeout(2000, () => socket.destroy());
    socket.on('data', (data) => {
      answer += data;
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(answer));
  });
}

// The server that lists the session among its connections.
async function serverOf(client, among = servers) {
  const session = `sid=0x${BigInt(`0x${sessionOf(client)}`).toString(16)},`;
  for (const server of among) {
    if ((await ask(server, 'cons')).includes(session)) {
      return server;
    }
  }
  return assert.fail(`no server has a connection of session ${session}`);
}

// The server that calls itself the leader, or undefined.
async function leader(among = servers) {
  for (const server of among) {
    if ((await ask(server, 'srvr')).includes('Mode: leader\n')) {
      return server;
    }
  }
  return undefined;
}

// Has the harness kill a server, and returns when it is dead.
async function loseServer(server) {
  await exchange(`LOSE SERVER ${server}`, `LOST ${server}`);
}

// Has the harness start the killed server again.
async function bringBack() {
  await exchange('BRING BACK', 'BACK');
}

async function exchange(request, expected) {
  console.log(request);
  const { value } = await input.next();
  equal(value, expected, 'the answer of the harness');
}

module.exports = {
  ask,
  bringBack,
  call,
  carried,
  check,
  checks,
  connect,
  equal,
  eventually,
  fails,
  giveUpAfter,
  leader,
  loseServer,
  seen,
  serverOf,
  servers,
  sessionOf,
  sleep,
  soon,
  watcher,
};
