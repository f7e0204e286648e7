'use strict';

// node-zookeeper-client against an ensemble of three: what a program written
// with it does on a working day, and on the day a server dies.
//
// ZK_CONNECT lists the servers; the lines that go to and come from the harness
// are in harness.js.

const { checks, giveUpAfter } = require('./harness');
const access = require('./access');
const failover = require('./failover');
const locks = require('./locks');
const transactions = require('./transactions');
const watches = require('./watches');
const znodes = require('./znodes');

// Bounds the whole program: a hang is a failure, not a wait.
const DEADLINE_MS = 120_000;

const steps = [
  ['znodes', znodes.run],
  ['watches', watches.run],
  ['transactions', transactions.run],
  ['access control', access.run],
  ['locks', locks.run],
  ['loss of the server in use', failover.loseServerInUse],
  ['loss of the leader', failover.loseLeader],
];

async function main() {
  giveUpAfter(DEADLINE_MS);
  for (const [name, run] of steps) {
    console.log(`# ${name}`);
    await run();
  }
  process.stdout.write(`OK ${checks()} checks\n`, () => process.exit(0));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
