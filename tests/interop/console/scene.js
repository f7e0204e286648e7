'use strict';

// What is in the tree before the pages are looked at.

const zookeeper = require('node-zookeeper-client');

const { ACL, CreateMode, Id, Permission } = zookeeper;

const SCRIPT = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
const BINARY = Buffer.from(Array.from({ length: 5000 }, (_, at) => at % 256));
const MANY = 250;

const ID = (number) => `1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4be${number}`;

/** Makes znodes, and two sessions that hold locks and wait for each other, in /pool by way of a semaphore of Curator. */
async function make(first, second) {
  const create = (path, data = '') => first.call('create', path, Buffer.from(data), ACL.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
  for (const path of ['/app', '/app/config', '/app/many', '/app/deep', '/app/deep/one', '/app/deep/one/two', '/locks',
    '/locks/report', '/locks/other', '/pool', '/pool/lock', '/pool/permits', '/pool/permits/leases', '/pool/permits/locks']) await create(path, path === '/app/config' ? '{"on": true}' : '');
  await create('/app/binary', BINARY);
  await create('/app/script', SCRIPT);
  await create('/app/größe ü', 'grüße');
  const owner = [new ACL(Permission.ALL, new Id('digest', 'bob:WGAwC+XYxdw8bJ5K6KcPh8oL58U='))];
  await first.call('create', '/app/secret', Buffer.from('hidden'), owner, CreateMode.PERSISTENT);
  const all = Array.from({ length: MANY }, (_, at) => `/app/many/child-${String(at).padStart(4, '0')}`);
  await Promise.all(all.map((path) => create(path)));
  const place = (client, lock, number, mark = 'lock') => client.call('create', `${lock}/_c_${ID(number)}-${mark}-`, Buffer.from(`client ${number}`),
    ACL.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
  const held = await place(first, '/locks/report', 1);
  await place(second, '/locks/other', 2);
  await place(second, '/locks/report', 2);
  await place(first, '/locks/other', 1);
  await place(first, '/pool/permits/leases', 3, 'lease');
  await place(second, '/pool/lock', 4);
  await place(second, '/pool/permits/locks', 5);
  await place(first, '/pool/lock', 6);
  return { held };
}

module.exports = { BINARY, MANY, SCRIPT, make };
