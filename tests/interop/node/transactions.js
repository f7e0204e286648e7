'use strict';

// Several writes at once or none.

const { CreateMode, Exception } = require('node-zookeeper-client');
const { call, connect, equal } = require('./harness');

async function run() {
  const client = await connect();
  const done = await call(
    client
      .transaction()
      .create('/node/multi', Buffer.from('a'))
      .create('/node/multi/n-', CreateMode.PERSISTENT_SEQUENTIAL)
      .setData('/node/multi', Buffer.from('bc'))
      .check('/node/multi', 1)
      .remove('/node/multi/n-0000000000'),
    'commit',
  );
  equal(done.map((result) => result.type), [1, 1, 5, 13, 2], 'the types of the results');
  equal(done[1].path, '/node/multi/n-0000000000', 'the name of the sequence');
  equal(done[2].stat.version, 1, 'the version after set');

  let refused;
  try {
    await call(
      client.transaction().setData('/node/multi', Buffer.from('lost')).remove('/node/multi/none').create('/node/multi/late'),
      'commit',
    );
  } catch (error) {
    refused = error;
  }
  equal(refused && refused.code, Exception.NO_NODE, 'a multi with an impossible part');
  equal(
    refused.results.map((result) => result.err),
    [Exception.OK, Exception.NO_NODE, Exception.RUNTIME_INCONSISTENCY],
    'before, at and after the impossible part',
  );
  const [data] = await call(client, 'getData', '/node/multi');
  equal(data.toString(), 'bc', 'nothing was done');
  equal(await call(client, 'exists', '/node/multi/late'), null, 'nothing was created');
  client.close();
}

module.exports = { run };
