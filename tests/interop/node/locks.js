'use strict';

// The lock of ZooKeeper's recipes, which this library's users write themselves:
// an ephemeral sequence, and a watch on the one before.

const { CreateMode } = require('node-zookeeper-client');
const { call, carried, connect, equal, eventually, sleep, soon, watcher } = require('./harness');

const CONTENDERS = 4;
const ROUNDS = 8;

class Lock {
  constructor(client, path) {
    this.client = client;
    this.path = path;
  }

  async acquire() {
    this.own = await call(this.client, 'create', `${this.path}/lock-`, CreateMode.EPHEMERAL_SEQUENTIAL);
    for (;;) {
      const [names] = await carried(this.client, 'getChildren', this.path);
      names.sort();
      const place = names.indexOf(this.own.slice(this.path.length + 1));
      if (place < 0) {
        throw new Error(`${this.own} is gone from the queue`);
      }
      if (place === 0) {
        return;
      }
      const { watch, fired } = watcher();
      if (await carried(this.client, 'exists', `${this.path}/${names[place - 1]}`, watch)) {
        await fired;
      }
    }
  }

  async release() {
    await call(this.client, 'remove', this.own);
  }
}

async function run() {
  const setup = await connect();
  await call(setup, 'mkdirp', '/node/locks/count');
  await call(setup, 'create', '/node/count', Buffer.from([0]));

  // Read, then write without a version: only mutual exclusion keeps the count
  // right. The contenders share the event loop, and wait at the server alone.
  let inside = 0;
  const contend = async () => {
    const client = await connect();
    const lock = new Lock(client, '/node/locks/count');
    for (let round = 0; round < ROUNDS; round += 1) {
      await soon(lock.acquire(), 'lock');
      inside += 1;
      equal(inside, 1, 'holders at the same time');
      const [data, stat] = await freshest(client, '/node/count');
      await call(client, 'setData', '/node/count', Buffer.from([data[0] + 1]), stat.version);
      inside -= 1;
      await lock.release();
    }
    client.close();
  };
  await Promise.all(Array.from({ length: CONTENDERS }, contend));
  const [data, stat] = await freshest(setup, '/node/count');
  equal([data[0], stat.version], [CONTENDERS * ROUNDS, CONTENDERS * ROUNDS], 'the count and its version');

  await deadHolder(setup);
  setup.close();
}

// The library has no sync; a write of one's own brings the server up to date.
async function freshest(client, path) {
  await call(client, 'setData', '/node/locks', Buffer.from('x'));
  return call(client, 'getData', path);
}

async function deadHolder(client) {
  await call(client, 'mkdirp', '/node/locks/dead');
  const dying = await connect();
  const held = new Lock(dying, '/node/locks/dead');
  await freshest(dying, '/node/locks/dead');
  await held.acquire();
  const lock = new Lock(client, '/node/locks/dead');
  let granted = false;
  const waiting = lock.acquire().then(() => {
    granted = true;
  });
  await eventually('two in the queue', async () => (await call(client, 'getChildren', '/node/locks/dead'))[0].length === 2);
  await sleep(200);
  equal(granted, false, 'a held lock is not granted');
  dying.close();
  await soon(waiting, 'the lock of the one who is gone');
  await lock.release();
}

module.exports = { Lock, run };
