import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isOutOfMemory, Thread, type ThreadOptions } from '../src/foundation/threads.ts';

/** Returns a thread that does this for each message. */
function threadOf(work: string, options: ThreadOptions = {}): Thread<unknown> {
  const source = `import { parentPort, workerData } from 'node:worker_threads';
    parentPort.on('message', message => { ${work} });`;
  const file = new URL(`data:text/javascript,${encodeURIComponent(source)}`);
  return new Thread(file, { heapMb: 16, youngHeapMb: 2, ...options });
}

const echo = 'parentPort.postMessage(message);';

test('a thread can be ended while it makes zlib streams', async () => {
  const program = fileURLToPath(new URL('world/unpacking-thread.ts', import.meta.url));
  const { stderr } = await promisify(execFile)(process.execPath, [program]);
  assert.equal(stderr, '');
});

test('the messages of a thread come in their order', async () => {
  await using thread = threadOf(echo);
  for (const message of [1, 2, 3]) thread.post(message);
  const read = [await thread.next(), await thread.next(), await thread.next()];
  assert.deepEqual(read, [1, 2, 3]);
});

test('an order forgets what the last one has left', async () => {
  const done = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  await using thread = threadOf(
    `for (const part of message) parentPort.postMessage(part);
    Atomics.store(workerData, 0, 1);
    Atomics.notify(workerData, 0);`,
    { workerData: done },
  );
  thread.ask(['first', 'left']);
  // Both are sent before the event loop receives one of them.
  Atomics.wait(done, 0, 0, 10_000);
  assert.equal(await thread.next(), 'first');
  await setImmediate();
  thread.ask(['second']);
  assert.equal(await thread.next(), 'second');
});

test('a caller that leaves gets the reason, and one that ends the thread decides about it', async () => {
  await using thread = threadOf('');
  const left = new Error('left');
  const stop = new AbortController();
  const waiting = thread.next(stop.signal);
  stop.abort(left);
  await assert.rejects(waiting, left);
  const next = thread.next();
  const reason = new Error('too slow');
  const ended = thread.end(reason);
  await assert.rejects(next, reason);
  await ended;
  assert.ok(thread.isLost);
});

test('the error of a thread is thrown, or is the cause of the stated one', async () => {
  const fail = 'throw new Error("wrong");';
  for (const ended of [undefined, 'the thread that counts ended']) {
    await using thread = threadOf(fail, ended ? { ended } : {});
    thread.ask(1);
    const error = await thread.next().catch((error: Error) => error);
    assert.ok(error instanceof Error);
    assert.equal(error.message, ended ?? 'wrong');
    if (ended) assert.equal((error.cause as Error).message, 'wrong');
    await assert.rejects(thread.next(), error);
  }
});

test('a thread without memory is recognised', async () => {
  const fill = 'const kept = []; for (;;) kept.push({ length: kept.length });';
  for (const ended of [undefined, 'it ended']) {
    await using thread = threadOf(fill, ended ? { ended } : {});
    thread.ask(1);
    const error = await thread.next().catch((error: unknown) => error);
    assert.ok(isOutOfMemory(error));
  }
  assert.ok(!isOutOfMemory(new Error('another')));
});
