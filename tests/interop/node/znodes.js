'use strict';

// Creating, reading, changing and deleting.

const { ACL, CreateMode, Exception } = require('node-zookeeper-client');
const { call, check, connect, equal, fails, seen, sessionOf, soon, watcher } = require('./harness');

async function run() {
  const client = await connect();

  equal(await call(client, 'create', '/node', Buffer.from('root')), '/node', 'the created path');
  await fails(call(client, 'create', '/node'), Exception.NODE_EXISTS, 'create twice');
  await fails(call(client, 'create', '/node/none/below'), Exception.NO_NODE, 'create without a parent');
  const [data, stat] = await call(client, 'getData', '/node');
  equal(data.toString(), 'root', 'the data');
  equal([stat.version, stat.cversion, stat.aversion, stat.dataLength], [0, 0, 0, 4], 'the numbers of a new znode');
  equal(stat.czxid, stat.mzxid, 'czxid and mzxid of a new znode');

  const changed = await call(client, 'setData', '/node', Buffer.from('again'), 0);
  equal([changed.version, changed.dataLength], [1, 5], 'version and length after set');
  check(Buffer.compare(changed.mzxid, stat.mzxid) > 0, 'mzxid grows');
  await fails(call(client, 'setData', '/node', Buffer.from('x'), 0), Exception.BAD_VERSION, 'an old version');
  await fails(call(client, 'setData', '/none', Buffer.from('x')), Exception.NO_NODE, 'set of nothing');
  equal(await call(client, 'exists', '/node'), changed, 'the stat of exists');
  equal(await call(client, 'exists', '/none'), null, 'exists of nothing');

  await children(client);
  await ephemerals(client);

  await fails(call(client, 'remove', '/node'), Exception.NOT_EMPTY, 'remove with children');
  await fails(call(client, 'remove', '/node/b', 7), Exception.BAD_VERSION, 'remove, wrong version');
  await call(client, 'remove', '/node/b', 0);
  await fails(call(client, 'remove', '/node/b'), Exception.NO_NODE, 'remove twice');
  client.close();
}

async function children(client) {
  await call(client, 'mkdirp', '/node/b');
  await call(client, 'mkdirp', '/node/a/deep');
  // Version 1.1.3 goes one level deep, no further.
  equal(await call(client, 'listSubTreeBFS', '/node/a'), ['/node/a', '/node/a/deep'], 'the subtree');
  const [names, stat] = await call(client, 'getChildren', '/node');
  equal(names.sort(), ['a', 'b'], 'the children');
  equal([stat.cversion, stat.numChildren], [2, 2], 'cversion and number of children');
  await call(client, 'removeRecursive', '/node/a');
  equal(await call(client, 'exists', '/node/a'), null, 'removed with all below');
  for (const number of ['0000000002', '0000000003']) {
    const path = await call(client, 'create', '/node/s-', CreateMode.PERSISTENT_SEQUENTIAL);
    equal(path, `/node/s-${number}`, 'a sequence counts every child that was created');
  }
}

async function ephemerals(client) {
  const owner = await connect();
  const path = await call(owner, 'create', '/node/mine', ACL.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
  equal(path, '/node/mine', 'the path of an ephemeral');
  await fails(call(owner, 'create', '/node/mine/child'), Exception.NO_CHILDREN_FOR_EPHEMERALS, 'its child');
  await seen(client, '/node/mine');
  const { watch, fired } = watcher();
  const stat = await call(client, 'exists', '/node/mine', watch);
  equal(stat.ephemeralOwner.toString('hex'), sessionOf(owner), 'the ephemeral owner');
  owner.close();
  equal(await soon(fired, 'the end of the owner'), ['NODE_DELETED', '/node/mine'], 'the event');
}

module.exports = { run };
