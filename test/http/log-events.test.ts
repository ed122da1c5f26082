/** The log of a build as server-sent events. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logEvents } from '../../src/http/api/builds/build-routes.ts';

/** The events of pieces that come this many ms apart. */
async function eventsOf(pieces: readonly string[], apartMs: number, quietMs: number) {
  let hasEnded = false;
  async function* read() {
    try {
      for (const piece of pieces) {
        await new Promise(resolve => setTimeout(resolve, apartMs));
        yield Buffer.from(piece, 'latin1');
      }
    } finally {
      hasEnded = true;
    }
  }
  const events: string[] = [];
  for await (const event of logEvents(read(), quietMs)) events.push(event);
  assert.ok(hasEnded);
  return events;
}

test('a line is an event, at whatever position the text is split, and the end is an event', async () => {
  assert.deepEqual(await eventsOf(['#1 o', 'ne\n\n#2 gr\xc3', '\xbcn\nlast'], 0, 60_000), [
    'data: #1 one\n\n',
    'data: \n\n',
    'data: #2 grün\n\n',
    'data: last\n\n',
    'event: end\ndata:\n\n',
  ]);
});

test('a line that is redrawn arrives complete', async () => {
  assert.deepEqual(await eventsOf(['#1 10\r#1 50\r#1 done\r\n'], 0, 60_000), [
    'data: #1 10\ndata: #1 50\ndata: #1 done\n\n',
    'event: end\ndata:\n\n',
  ]);
});

test('without output, a comment keeps the connection alive', async () => {
  const events = await eventsOf(['one\n', 'two\n'], 300, 50);
  assert.ok(events.filter(event => event === ':\n\n').length >= 2, JSON.stringify(events));
  assert.deepEqual(
    events.filter(event => event !== ':\n\n'),
    ['data: one\n\n', 'data: two\n\n', 'event: end\ndata:\n\n'],
  );
});

test('a disconnected client ends the reading', async () => {
  let hasEnded = false;
  async function* read() {
    try {
      for (;;) yield Buffer.from('line\n');
    } finally {
      hasEnded = true;
    }
  }
  for await (const _ of logEvents(read(), 60_000)) break;
  assert.ok(hasEnded);
});
