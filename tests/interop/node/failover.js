'use strict';

// The death of a server: sessions, ephemerals, locks and watches go on at
// another one.

const { CreateMode, Exception } = require('node-zookeeper-client');
const {
  bringBack,
  call,
  carried,
  check,
  connect,
  equal,
  eventually,
  leader,
  loseServer,
  serverOf,
  servers,
  sessionOf,
  sleep,
  soon,
  watcher,
} = require('./harness');
const { Lock } = require('./locks');

async function loseServerInUse() {
  const holder = await connect();
  const lost = await serverOf(holder);
  const others = servers.filter((server) => server !== lost);
  const other = await connect(others);
  const session = sessionOf(holder);
  holder.addAuthInfo('digest', Buffer.from('noder:module'));

  for (const path of ['/node/locks/failover', '/node/w/data', '/node/w/gap']) {
    await call(holder, 'mkdirp', path);
  }
  const lock = new Lock(holder, '/node/locks/failover');
  await lock.acquire();
  await call(holder, 'create', '/node/alive', CreateMode.EPHEMERAL);
  const [data, children, gap, born] = [watcher(), watcher(), watcher(), watcher()];
  await call(holder, 'getData', '/node/w/data', data.watch);
  await call(holder, 'getChildren', '/node/w/data', children.watch);
  await call(holder, 'getData', '/node/w/gap', gap.watch);
  await call(holder, 'exists', '/node/w/born', born.watch);
  await eventually('the queue is seen by the waiter', async () => {
    const stat = await call(other, 'exists', '/node/locks/failover');
    return stat !== null && stat.numChildren === 1;
  });
  let granted = false;
  const next = new Lock(other, '/node/locks/failover');
  const waiting = next.acquire().then(() => {
    granted = true;
  });
  await eventually('the waiter is in the queue', async () => (await call(holder, 'getChildren', '/node/locks/failover'))[0].length === 2);

  await loseServer(lost);
  await carried(other, 'setData', '/node/w/gap', Buffer.from('1'));
  await carried(other, 'create', '/node/w/born').catch((error) => equal(error.code, Exception.NODE_EXISTS, 'made before'));
  equal(await soon(gap.fired, 'the change in the gap'), ['NODE_DATA_CHANGED', '/node/w/gap'], 'the event');
  equal(await soon(born.fired, 'the birth in the gap'), ['NODE_CREATED', '/node/w/born'], 'the event');
  // A write goes through the new leader, wherever it is answered.
  await carried(holder, 'setData', '/node/own', Buffer.from('with the identity given before'));
  check((await serverOf(holder, others)) !== lost, 'the session has moved');
  equal(sessionOf(holder), session, 'the session after the loss');
  const stat = await call(holder, 'exists', '/node/alive');
  equal(stat && stat.ephemeralOwner.toString('hex'), session, 'the ephemeral after the loss');

  await call(other, 'setData', '/node/w/data', Buffer.from('1'));
  await call(other, 'create', '/node/w/data/child');
  equal(await soon(data.fired, 'data'), ['NODE_DATA_CHANGED', '/node/w/data'], 'the event');
  equal(await soon(children.fired, 'children'), ['NODE_CHILDREN_CHANGED', '/node/w/data'], 'the event');

  equal(granted, false, 'the lock is not granted while it is held');
  await lock.release();
  await soon(waiting, 'the lock for the waiter');
  await next.release();
  await bringBack();
  holder.close();
  other.close();
}

async function loseLeader() {
  const client = await connect();
  const session = sessionOf(client);
  await call(client, 'create', '/node/before', CreateMode.EPHEMERAL);
  await call(client, 'create', '/node/answered');

  let stop = false;
  let answered = 0;
  const write = async () => {
    while (!stop) {
      try {
        await call(client, 'setData', '/node/answered', Buffer.from('x'));
        answered += 1;
      } catch (error) {
        equal(error.code, Exception.CONNECTION_LOSS, 'how a write may fail');
        await sleep(20);
      }
    }
  };
  const writing = write();
  await sleep(300);
  const dead = await leader();
  check(dead !== undefined, 'a server says that it leads');
  await loseServer(dead);
  const others = servers.filter((server) => server !== dead);
  await eventually('a new leader', async () => (await leader(others)) !== undefined);
  const before = answered;
  await eventually('writes are answered again', () => answered > before + 10);
  stop = true;
  await soon(writing, 'the last write');

  const [, stat] = await carried(client, 'getData', '/node/answered');
  check(stat.version >= answered, `${answered} writes were answered, ${stat.version} are there`);
  equal(sessionOf(client), session, 'the session after the election');
  check((await call(client, 'exists', '/node/before')) !== null, 'the ephemeral after the election');
  await bringBack();
  client.close();
}

module.exports = { loseLeader, loseServerInUse };
