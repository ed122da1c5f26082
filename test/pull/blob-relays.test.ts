/** Simultaneous clients of a blob that is not kept. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { createBlobRelays, type FoundBlob } from '../../src/pull/blobs/blob-relays.ts';
import type { Transfers } from '../../src/pull/blobs/transfers.ts';
import { sourceOfBytes } from '../../src/storage/content/byte-source.ts';

const bytes = Buffer.from('the bytes of a layer');
const digest = digestOf(bytes);

function stream(): FoundBlob {
  const source = sourceOfBytes(bytes);
  return { kind: 'stream', size: bytes.length, source, delivery: 'relayed', isVerified: false };
}

function redirectTo(client: string): FoundBlob {
  return { kind: 'redirect', location: new URL(`https://storage.example.com/?for=${client}`) };
}

/** Relays whose openings end when the test ends them. */
function world() {
  const openings = new Map<string, PromiseWithResolvers<FoundBlob>>();
  const joined: string[] = [];
  const transfers: Transfers = {
    async join(key) {
      joined.push(key);
      const read = () => sourceOfBytes(bytes);
      return { size: bytes.length, read, leave() {} };
    },
    has: () => joined.length > 0,
  };
  const relays = createBlobRelays(transfers, 1e6);
  const wanted = {
    digest,
    openWhole: () => Promise.reject(new Error('the transfers of this test open nothing')),
  };
  /** Begins a pull of the blob. A client that leaves ends its own opening. */
  const pull = (client: string) => {
    const gone = new AbortController();
    const direct = () => {
      const opening = Promise.withResolvers<FoundBlob>();
      openings.set(client, opening);
      gone.signal.addEventListener('abort', () => opening.reject(gone.signal.reason));
      return opening.promise;
    };
    const blob = relays.open('the blob', direct, wanted, bytes.length, gone.signal);
    blob.catch(() => {});
    return { blob, leave: () => gone.abort(new Error(`${client} left`)) };
  };
  const opened = (client: string) => {
    const opening = openings.get(client);
    assert.ok(opening, `${client} asked the registry`);
    return opening;
  };
  return { pull, opened, joined, asked: () => [...openings.keys()] };
}

/** Lets all reactions to settled promises run. */
const settled = () => new Promise(setImmediate);

test('each client of a blob that is redirected gets its own redirect', async () => {
  const { pull, opened, joined, asked } = world();
  const clients = ['one', 'two', 'three'];
  const pulls = clients.map(pull);
  await settled();
  assert.deepEqual(asked(), ['one'], 'the others wait for the first');
  opened('one').resolve(redirectTo('one'));
  await settled();
  for (const other of ['two', 'three']) opened(other).resolve(redirectTo(other));
  const blobs = await Promise.all(pulls.map(({ blob }) => blob));
  assert.deepEqual(blobs, clients.map(redirectTo));
  assert.deepEqual(joined, []);
});

test('other clients of a blob that the registry sends share a transfer', async () => {
  const { pull, opened, joined, asked } = world();
  const pulls = ['one', 'two', 'three'].map(pull);
  opened('one').resolve(stream());
  const [first, ...others] = await Promise.all(pulls.map(({ blob }) => blob));
  assert.ok(first?.kind === 'stream' && first.delivery === 'relayed');
  for (const other of others) assert.ok(other.kind === 'stream' && other.delivery === 'stored');
  const late = await pull('four').blob;
  assert.ok(late.kind === 'stream' && late.delivery === 'stored');
  assert.equal(joined.length, 3);
  assert.deepEqual(asked(), ['one']);
});

test('a client that comes after the first one has its bytes is a first client again', async () => {
  const { pull, opened, joined } = world();
  const one = pull('one');
  opened('one').resolve(stream());
  const blob = await one.blob;
  assert.ok(blob.kind === 'stream');
  blob.source.destroy();
  const two = pull('two');
  // A second call does nothing: the client that opens now is another one.
  blob.source.destroy();
  const three = pull('three');
  opened('two').resolve(stream());
  await Promise.all([two.blob, three.blob]);
  assert.equal(joined.length, 1);
});

test('a failed opening fails for all who wait for it, and is tried again by the next client', async () => {
  const { pull, opened, asked } = world();
  const pulls = ['one', 'two', 'three'].map(pull);
  opened('one').reject(new Error('the registry is broken'));
  for (const { blob } of pulls) await assert.rejects(blob, /the registry is broken/);
  assert.deepEqual(asked(), ['one']);
  const late = pull('four');
  opened('four').resolve(redirectTo('four'));
  assert.deepEqual(await late.blob, redirectTo('four'));
});

test('when the first client leaves, one of the others takes its place', async () => {
  const { pull, opened, joined, asked } = world();
  const [one, two, three] = [pull('one'), pull('two'), pull('three')];
  one.leave();
  await assert.rejects(one.blob, /one left/);
  await settled();
  assert.deepEqual(asked(), ['one', 'two']);
  opened('two').resolve(stream());
  const [second, third] = await Promise.all([two.blob, three.blob]);
  assert.ok(second.kind === 'stream' && second.delivery === 'relayed');
  assert.ok(third.kind === 'stream' && third.delivery === 'stored');
  assert.equal(joined.length, 1);
});

test('a client that leaves waits no longer, and does not disturb the others', async () => {
  const { pull, opened } = world();
  const [one, two, three] = [pull('one'), pull('two'), pull('three')];
  two.leave();
  await assert.rejects(two.blob, /two left/);
  opened('one').resolve(redirectTo('one'));
  await settled();
  opened('three').resolve(redirectTo('three'));
  assert.deepEqual(await Promise.all([one.blob, three.blob]), [
    redirectTo('one'),
    redirectTo('three'),
  ]);
});
