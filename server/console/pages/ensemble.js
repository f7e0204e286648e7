// The servers: roles, lag, latency, syncs, and elections on a timeline.

import { follow, get } from './api.js';
import { element, notice, show, table } from './dom.js';
import { timeline } from './pictures.js';
import { age, bytes, milliseconds, number, plural, time } from './text.js';

const COLUMNS = [['Server'], ['Role'], ['Term', true], ['Zxid'], ['Behind', true], ['Latency', true],
  ['Fsync', true], ['Connections', true], ['Waiting', true], ['Znodes', true], ['Data', true],
  ['Watches', true], ['Version']];

export async function start(page) {
  const parts = { summary: element('p', { id: 'summary' }), servers: element('div'), times: element('div') };
  draw(parts, await get('ensemble'));
  show(page, parts.summary, parts.servers, element('h2', {}, 'Roles and elections'), parts.times);
  follow({ topic: 'ensemble' }, { ensemble: (look) => draw(parts, look) });
}

function draw(parts, look) {
  const isGood = look.serving === look.servers.length && look.leader !== null && look.isComplete;
  const kind = isGood ? 'good' : look.leader === null ? 'bad' : 'warn';
  show(parts.summary, element('strong', { class: kind }, look.summary),
    element('span', { class: 'muted' }, ` at ${time(look.atMs)}`));
  replaceTable(parts.servers, table('Servers of the ensemble', COLUMNS, look.servers.map(row)));
  show(parts.times, timeline(look.timeline, look.atMs), elections(look.timeline.elections));
}

// A table that is scrolled or focused keeps that.
function replaceTable(parent, made) {
  const before = parent.querySelector('table');
  if (before) before.replaceWith(made.querySelector('table'));
  else show(parent, made);
}

function row(server) {
  if (server.problem) {
    return [server.address, element('span', { class: 'bad' }, server.problem), ...Array(11).fill(null)];
  }
  const behind = server.behind === null ? null
    : element('span', { class: server.behind > 1000 ? 'warn' : null }, number(server.behind));
  return [server.address, server.role, number(server.term), element('code', {}, server.zxid), behind,
    milliseconds(server.latencyMs), milliseconds(server.fsyncMs), number(server.connections),
    number(server.outstanding), number(server.znodes), bytes(server.dataBytes), number(server.watches),
    server.version];
}

function elections(all) {
  if (all.length === 0) {
    return notice('No election was seen since this console began to look.');
  }
  const rows = [...all].reverse().map((election) => [time(election.atMs), election.leader, number(election.term),
    election.withoutLeaderMs === null ? 'not seen' : `up to ${age(election.withoutLeaderMs)}`]);
  return element('div', {}, element('h3', {}, plural(all.length, 'election')),
    table('Elections, the last one first', [['When'], ['Leader since then'], ['Term', true], ['Without a leader']], rows));
}
