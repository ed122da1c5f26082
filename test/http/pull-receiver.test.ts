/** Messages of replicas while their leader gives up the lead: what it acknowledged is written. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { pino } from 'pino';
import type { TakePulls } from '../../src/http/registry/reported-pulls.ts';
import { createChanges } from '../../src/server/replicas/changes.ts';
import { createPullReceiver } from '../../src/server/replicas/pull-receiver.ts';

const pulls = JSON.stringify([{ kind: 'right', token: 'a' }]);
const replies = [{ isAdmitted: true }];

async function startLeader(take: TakePulls) {
  const changes = createChanges();
  const state = { take: take as TakePulls | undefined };
  const log = pino({ level: 'silent' });
  const answer = createPullReceiver({ taker: () => state.take, changes, log });
  const arrived = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    void answer(request, response);
    arrived.resolve();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    ...{ changes, state, port, arrived: arrived.promise },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Sends the first part of a message, and returns what sends the rest and reads the status. */
async function begin({ port, arrived }: Awaited<ReturnType<typeof startLeader>>) {
  const out = request({ port, host: '127.0.0.1', method: 'POST' });
  const status = once(out, 'response').then(([{ statusCode }]) => statusCode as number);
  out.write(pulls.slice(0, 3));
  await arrived;
  return (): Promise<number> => {
    out.end(pulls.slice(3));
    return status;
  };
}

test('a leader that gives up the lead waits for the pulls that it takes', async () => {
  const taking = Promise.withResolvers<void>();
  const counted = Promise.withResolvers<typeof replies>();
  await using leader = await startLeader(async () => {
    taking.resolve();
    return counted.promise;
  });
  const status = (await begin(leader))();
  await taking.promise;
  let hasSettled = false;
  const settled = leader.changes.settled().then(() => {
    hasSettled = true;
  });
  await new Promise(setImmediate);
  assert.equal(hasSettled, false);
  counted.resolve(replies);
  assert.equal(await status, 200);
  await settled;
});

test('a leader that has given up the lead takes no pulls of a message that it was reading', async () => {
  let taken = 0;
  await using leader = await startLeader(async () => {
    taken += 1;
    return replies;
  });
  const end = await begin(leader);
  leader.state.take = undefined;
  assert.equal(await end(), 503);
  assert.equal(taken, 0);
});
