'use strict';

// Access control by digest.

const { ACL, Exception, Id, Permission } = require('node-zookeeper-client');
const { call, check, connect, equal, eventually, fails } = require('./harness');

async function run() {
  const owner = await connect();
  const stranger = await connect();
  await fails(call(stranger, 'create', '/node/none', ACL.CREATOR_ALL_ACL), Exception.INVALID_ACL, 'no identity');

  owner.addAuthInfo('digest', Buffer.from('noder:module'));
  await call(owner, 'create', '/node/own', Buffer.from('secret'), ACL.CREATOR_ALL_ACL);
  const [acl, stat] = await call(owner, 'getACL', '/node/own');
  equal(acl.length, 1, 'the number of entries');
  equal([acl[0].permission, acl[0].id.scheme], [Permission.ALL, 'digest'], 'the entry');
  check(/^noder:[A-Za-z0-9+/]{27}=$/.test(acl[0].id.id), 'the hashed identity');
  equal(stat.aversion, 0, 'aversion');

  // Even to ask whether a znode exists takes the right to read it.
  await eventually('the znode is listed', async () => (await call(stranger, 'getChildren', '/node'))[0].includes('own'));
  await fails(call(stranger, 'exists', '/node/own'), Exception.NO_AUTH, 'exists as a stranger');
  await fails(call(stranger, 'getData', '/node/own'), Exception.NO_AUTH, 'read as a stranger');
  await fails(call(stranger, 'setData', '/node/own', Buffer.from('x')), Exception.NO_AUTH, 'write as a stranger');
  const readable = [...acl, new ACL(Permission.READ, new Id('world', 'anyone'))];
  const after = await call(owner, 'setACL', '/node/own', readable, 0);
  equal(after.aversion, 1, 'aversion after it');
  await fails(call(owner, 'setACL', '/node/own', readable, 0), Exception.BAD_VERSION, 'an old ACL version');
  await eventually('a stranger may read', () => call(stranger, 'getData', '/node/own').then(() => true, () => false));
  await fails(call(stranger, 'setData', '/node/own', Buffer.from('x')), Exception.NO_AUTH, 'still no write');
  stranger.addAuthInfo('digest', Buffer.from('noder:module'));
  await call(stranger, 'setData', '/node/own', Buffer.from('shared'));
  owner.close();
  stranger.close();
}

module.exports = { run };
