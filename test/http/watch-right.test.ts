/** Responses whose client left before a step that waits for the end of the response. */
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { mock, type TestContext, test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import type { Logger } from '../../src/foundation/telemetry.ts';
import { watchRight } from '../../src/http/registry/served-routes.ts';
import { holdEntries } from '../../src/server/entries.ts';

/** A response that is open, or whose client has left. */
class ScriptedResponse extends EventEmitter {
  closed = false;

  destroy(): void {
    if (this.closed) return;
    this.closed = true;
    this.emit('close');
  }
}

const everyMs = 1000;

/** Watches a response, and returns a function that counts the checks at each interval. */
function watched(t: TestContext, response: ScriptedResponse, checkRight: () => Promise<unknown>) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const counted = mock.fn(checkRight);
  watchRight(response as unknown as ServerResponse, everyMs, counted);
  return (): number => {
    t.mock.timers.tick(everyMs);
    return counted.mock.callCount();
  };
}

test('a client that left before is not watched', t => {
  const response = new ScriptedResponse();
  response.destroy();
  const checks = watched(t, response, async () => {});
  assert.equal(checks(), 0);
});

test('the watch ends with the response', t => {
  const response = new ScriptedResponse();
  const checks = watched(t, response, async () => {});
  assert.equal(checks(), 1);
  assert.equal(checks(), 2);
  response.destroy();
  assert.equal(checks(), 2);
});

test('the watch ends with the right', async t => {
  const response = new ScriptedResponse();
  const denied = new Fault('denied', 'The right has ended', { phase: 'request' });
  const failing = Promise.reject(denied);
  const checks = watched(t, response, () => failing);
  assert.equal(checks(), 1);
  await failing.catch(() => {});
  await Promise.resolve();
  assert.ok(response.closed, 'the connection ends');
  assert.equal(checks(), 1);
});

test('a request whose client left while the server started is not answered', async () => {
  const server = new EventEmitter();
  const entries = holdEntries(server as unknown as Server, {} as Logger);
  const [gone, open] = [new ScriptedResponse(), new ScriptedResponse()];
  for (const response of [gone, open]) server.emit('request', {} as IncomingMessage, response);
  gone.destroy();
  const responded = Promise.withResolvers<unknown>();
  const all: unknown[] = [];
  entries.open({
    async respond(_request, response) {
      all.push(response);
      responded.resolve(response);
    },
    handleUpgrade: () => false,
  });
  await responded.promise;
  assert.deepEqual(all, [open]);
});
