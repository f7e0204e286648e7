'use strict';

// Watches on data, on children and on what does not exist yet.

const { call, connect, equal, seen, soon, watcher } = require('./harness');

async function run() {
  const watching = await connect();
  const writing = await connect();
  await call(writing, 'create', '/node/watched', Buffer.from('0'));
  await seen(watching, '/node/watched');

  const data = watcher();
  const children = watcher();
  const born = watcher();
  await call(watching, 'getData', '/node/watched', data.watch);
  await call(watching, 'getChildren', '/node/watched', children.watch);
  equal(await call(watching, 'exists', '/node/watched/child', born.watch), null, 'not there yet');

  await call(writing, 'create', '/node/watched/child');
  equal(await soon(born.fired, 'exists'), ['NODE_CREATED', '/node/watched/child'], 'the event on exists');
  equal(await soon(children.fired, 'children'), ['NODE_CHILDREN_CHANGED', '/node/watched'], 'the event on children');
  await call(writing, 'setData', '/node/watched', Buffer.from('1'));
  equal(await soon(data.fired, 'data'), ['NODE_DATA_CHANGED', '/node/watched'], 'the event on data');

  // A client that has seen the event reads nothing older than it.
  const end = watcher();
  const [value] = await call(watching, 'getData', '/node/watched', end.watch);
  equal(value.toString(), '1', 'the data after the event');
  await call(writing, 'removeRecursive', '/node/watched');
  equal(await soon(end.fired, 'the end'), ['NODE_DELETED', '/node/watched'], 'the event');
  watching.close();
  writing.close();
}

module.exports = { run };
