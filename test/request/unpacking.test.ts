import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { Fault } from '../../src/foundation/fault.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { createUnpackTurns, digestTar } from '../../src/request/layers/layer-check.ts';

const MiB = 1024 * 1024;
const tooLarge = (message: RegExp) => (error: unknown) =>
  error instanceof Fault && error.status === 413 && message.test(error.message);

/** Digests of gzip files that take from one room, a piece at a time. */
function limited(bytes: number) {
  const room = { left: bytes, limit: bytes };
  let turns = 0;
  const takeTurn = async () => {
    turns += 1;
    return {
      [Symbol.dispose]() {
        turns -= 1;
      },
    };
  };
  return async (pieces: Iterable<Buffer>) => {
    const tar = digestTar('layer', { room, takeTurn });
    try {
      for (const piece of pieces) await tar.write(piece);
      return await tar.end();
    } finally {
      tar.abort();
      assert.equal(turns, 0, 'every turn has ended');
    }
  };
}

test('a file that unpacks to hundreds of times its size is refused', async () => {
  const zeros = gzipSync(Buffer.alloc(16 * MiB));
  const digest = limited(8192 * MiB);
  await assert.rejects(
    digest(Array.from({ length: 500 }, () => zeros)),
    tooLarge(/more than 200 times its size/),
  );
});

test('a large file is hashed like a small one', async () => {
  for (const size of [1024, 512 * 1024, 512 * 1024 + 1, 3 * MiB]) {
    const tar = Buffer.alloc(size);
    const file = gzipSync(tar);
    const middle = file.length >> 1;
    const pieces = [file.subarray(0, middle), file.subarray(middle)];
    assert.equal(await limited(8 * MiB)(pieces), digestOf(tar));
  }
});

test('the layers of a request share one limit for their unpacked size', async () => {
  const file = gzipSync(Buffer.alloc(MiB));
  const digest = limited(2 * MiB + 1);
  await digest([file]);
  await digest([file]);
  await assert.rejects(digest([file]), tooLarge(/2097153 bytes allowed for all layers/));
});

test('a caller can unpack one file at a time, and all callers together two', async () => {
  const take = createUnpackTurns();
  const order: string[] = [];
  const asked = ['a', 'a', 'b', 'c'].map(async (user, position) => {
    const turn = await take({ user });
    order.push(`${user}${position}`);
    return turn;
  });
  const turn = () => new Promise(resolve => setTimeout(resolve, 5));
  await turn();
  assert.deepEqual(order, ['a0', 'b2']);
  (await asked[2])?.[Symbol.dispose]();
  await turn();
  assert.deepEqual(order, ['a0', 'b2', 'c3']);
  (await asked[0])?.[Symbol.dispose]();
  await turn();
  assert.deepEqual(order, ['a0', 'b2', 'c3', 'a1']);
});

test('layers of many networks do not delay the layers of a user', async () => {
  const take = createUnpackTurns();
  const order: string[] = [];
  const anonymous = Array.from({ length: 50 }, async (_, at) => {
    const end = await take({ network: `network${at}` });
    order.push(`network${at}`);
    return end;
  });
  await anonymous[0];
  for (let count = 0; count < 3; count += 1) (await take({ user: 'ada' }))[Symbol.dispose]();
  assert.deepEqual(order, ['network0']);
  for (const one of anonymous) (await one)[Symbol.dispose]();
  assert.equal(order.length, 50);
});
