/** Which content is served to whom: kept content only with the right to it, all else by the registry with the caller's own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { noTally, type Tally } from '../../src/foundation/telemetry/counted.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import type { Document } from '../../src/oci/manifest.ts';
import type { BlobCache } from '../../src/pull/blobs/blob-cache.ts';
import type { FoundBlob } from '../../src/pull/blobs/blob-relays.ts';
import { blobOfBytes, createBlobFinder, keptBlob } from '../../src/pull/blobs/pulled-blob.ts';
import type { RelayedBlobs } from '../../src/pull/blobs/relayed-blobs.ts';
import type { Member, PulledImage } from '../../src/pull/pulled-image.ts';
import type { ByteSource } from '../../src/storage/content/byte-source.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import type { Access } from '../../src/upstream/access.ts';

const ownHost = 'sluice.example.com';
const blob = digestOf('a blob');
const size = 1_000_000;
const { signal } = new AbortController();

interface State {
  /** Size in the content store. */
  kept?: number;
  /** The repository, or only the registry, that the copy has come from. */
  from?: 'repository' | 'registry' | undefined;
  /** The registry shows the blob in the repository. */
  isShown?: boolean;
  member?: Partial<Member> | undefined;
  isOwned?: boolean;
  reader?: PulledImage['reader'];
  /** Bytes that are kept in memory with the image. */
  held?: Document;
  access?: Partial<Access>;
  mode?: 'relay' | 'redirect' | 'cache';
  /** Where clients read the content themselves. */
  link?: URL;
  /** The copy is gone when it is read, or its disk is broken. */
  isGone?: boolean;
  isBroken?: boolean;
  /** Why no copy can be kept. */
  unwritable?: Error;
  isUncached?: boolean;
}

/** A finder in a state, and what it has asked of others. */
function world(state: State) {
  const asked: string[] = [];
  const source: ByteSource = {
    async read() {
      if (state.isGone || state.isBroken) {
        if (state.isGone) delete state.kept;
        throw new Error('the bytes cannot be read');
      }
      return null;
    },
    destroy() {},
  };
  const content = {
    size: async () => state.kept,
    link: async () => state.link,
    open: (_: Digest, start: number, end: number) => {
      asked.push(`read ${start}-${end}`);
      return source;
    },
    hasLinks: state.link !== undefined,
  } as unknown as ContentStore;
  const access = {
    ...{ registry: 'r.example.com', repository: 'team/app', credentials: undefined },
    ...state.access,
  };
  const nameOf = ({ registry, repository, isService = false }: Access) =>
    `${registry}/${repository}${isService ? ' as service' : ''}`;
  const registry = {
    async headBlob(by: Access) {
      asked.push(`head ${nameOf(by)}`);
      if (!state.isShown) throw new Fault('blob-unknown', 'no such blob');
      return size;
    },
  };
  const cache: BlobCache = {
    async join() {
      asked.push('join');
      if (state.unwritable) throw state.unwritable;
      if (state.isUncached) return undefined as never;
      return {
        size,
        read: (start: number, end: number) => {
          asked.push(`copy ${start}-${end}`);
          return source;
        },
        leave: () => asked.push('leave'),
      } as unknown as Awaited<ReturnType<BlobCache['join']>>;
    },
    async isFrom(_, place) {
      if (typeof place === 'string') return state.from !== undefined && place === access.registry;
      return state.from === 'repository' && place.repository === access.repository;
    },
    shownBy: (_, { repository }) => asked.push(`shown by ${repository}`),
    used: () => asked.push('used'),
  };
  const relayed = {
    async open(one, _range, redirects) {
      asked.push(`relay ${nameOf(one.access)} ${one.size} ${redirects}`);
      return { kind: 'stream', size, source, delivery: 'relayed', isVerified: false };
    },
    async size(one) {
      asked.push(`size ${nameOf(one.access)} ${one.size}`);
      return size;
    },
    opening: () => async () => assert.fail('not opened here'),
  } satisfies RelayedBlobs;
  const tally: Tally = {
    ...noTally,
    add: (kind, labels) => void asked.push(`${kind}: ${Object.values(labels)}`),
  };
  const modeOf = () => state.mode ?? 'relay';
  const finder = createBlobFinder({
    ...{ content, registry, cache, relayed, modeOf, ownHost, tally },
  });
  const member = 'member' in state ? state.member : {};
  const image: PulledImage = {
    ...{ root: undefined as never, access, reader: state.reader ?? 'client' },
    held: () => state.held,
    member: async () =>
      member && { mediaType: 'x', digest: blob, size, isElsewhere: false, ...member },
    owns: () => state.isOwned ?? false,
    learn() {},
    bytes: () => 0,
  };
  return { finder, image, asked };
}

/** Opens the blob, and returns how it was found with what was asked for that. */
async function opened(state: State, range?: { start: number; end: number }) {
  const { finder, image, asked } = world(state);
  const found = await finder.open(image, blob, range && (() => range), signal);
  return { found, asked };
}

const relayedOnly = ['relay r.example.com/team/app 1000000 follow'];
const keptOnly = ['read 0-999999', 'used'];

test('content of the image itself is served from here, without a question', async () => {
  const { found, asked } = await opened({ kept: size, isOwned: true });
  assert.deepEqual(asked, keptOnly);
  assert.ok(found.kind === 'stream' && found.delivery === 'stored' && found.isVerified);
  assert.equal(found.size, size);
  assert.deepEqual((await opened({ isOwned: true })).asked, relayedOnly, 'it is not kept');
});

test('what a manifest says to be elsewhere is not served from here, even if it is kept', async () => {
  const member = { isElsewhere: true };
  for (const from of ['repository', 'registry', undefined] as const) {
    const state = { kept: size, member, from, isShown: true };
    assert.deepEqual((await opened(state)).asked, relayedOnly);
  }
  assert.deepEqual((await opened({ kept: size, member, isOwned: true })).asked, keptOnly);
});

test('a copy is served to those whose repository has shown it', async () => {
  const shown = ['head r.example.com/team/app', 'shown by team/app', ...keptOnly];
  for (const [state, expected] of [
    [{ from: 'repository' }, keptOnly],
    [{ from: 'registry', isShown: true }, shown],
    [{ from: 'registry', isShown: false }, ['head r.example.com/team/app', ...relayedOnly]],
    [{ from: undefined, isShown: true }, relayedOnly],
  ] as const) {
    assert.deepEqual((await opened({ kept: size, ...state })).asked, expected);
  }
});

test('content of a hosted repository is served if the repository has it, not because it is kept', async () => {
  const access = { registry: ownHost };
  const head = `head ${ownHost}/team/app as service`;
  const relay = `relay ${ownHost}/team/app 1000000 follow`;
  for (const from of ['repository', undefined] as const) {
    const { asked } = await opened({ kept: size, access, from, isShown: true });
    assert.deepEqual(asked, [head, ...keptOnly]);
    assert.deepEqual((await opened({ kept: size, access, from })).asked, [head, relay]);
  }
});

test('in the right of the service, and for builders and scanners, nothing is served that the image does not name', async () => {
  for (const state of [
    { access: { isService: true } },
    { reader: 'builder' },
    { reader: 'scanner' },
  ] as const) {
    const { finder, image, asked } = world({
      ...{ kept: size, member: undefined, isShown: true, from: 'repository' },
      ...state,
    });
    for (const call of [
      () => finder.open(image, blob, undefined, signal),
      () => finder.head(image, blob, signal),
      () => finder.order(image, blob),
    ]) {
      await assert.rejects(call, { kind: 'blob-unknown' });
    }
    assert.deepEqual(asked, []);
  }
  const { asked } = await opened({ kept: size, member: undefined, isOwned: true });
  assert.deepEqual(asked, ['relay r.example.com/team/app undefined follow']);
});

test('a kept copy whose size is not that of the manifest is the fault of the manifest', async () => {
  const state: State = { kept: size - 1, from: 'repository' };
  const { finder, image } = world(state);
  await assert.rejects(finder.head(image, blob, signal), {
    message: /has 999999 bytes for the blob .*, not 1000000 as its manifest says/,
  });
});

test('the size comes from here with the right to the content, and from the registry without', async () => {
  const sizeOf = async (state: State) => {
    const { finder, image, asked } = world(state);
    assert.equal(await finder.head(image, blob, signal), size);
    return asked;
  };
  assert.deepEqual(await sizeOf({ kept: size, from: 'repository' }), []);
  assert.deepEqual(await sizeOf({ kept: size }), ['size r.example.com/team/app 1000000']);
  const unknown = ['size r.example.com/team/app undefined'];
  assert.deepEqual(await sizeOf({ kept: size, member: undefined }), unknown);
});

test('a part is the part that was requested', async () => {
  const range = { start: 5, end: 7 };
  const { asked } = await opened({ kept: size, isOwned: true }, range);
  assert.deepEqual(asked, ['read 5-7', 'used']);
  const copied = await opened({ mode: 'cache' }, range);
  assert.deepEqual(copied.asked, ['cached blobs: registry', 'join', 'copy 5-7']);
});

test('a copy that was removed meanwhile comes from the registry; one that cannot be read is a failure', async () => {
  const state: State = { kept: size, from: 'repository' };
  const { asked } = await opened({ ...state, isGone: true });
  assert.deepEqual(asked, ['read 0-999999', ...relayedOnly]);
  await assert.rejects(opened({ ...state, isBroken: true }), /cannot be read/);
  // Bytes that belong to the image are nowhere else: their failure is told when they are read.
  for (const own of [{ isOwned: true }, { access: { registry: ownHost }, isShown: true }]) {
    const { found } = await opened({ ...state, ...own, isBroken: true });
    assert.ok(found.kind === 'stream');
    await assert.rejects(found.source.read(), /cannot be read/);
  }
});

test('clients read from the store themselves where it has links', async () => {
  const link = new URL('https://bucket.example.com/x');
  for (const own of [{ isOwned: true }, { from: 'repository' as const }]) {
    const { found } = await opened({ kept: size, link, ...own });
    assert.deepEqual(found, { kind: 'redirect', location: link });
    const { found: sent, asked } = await opened({ kept: size, link, reader: 'scanner', ...own });
    assert.equal(sent.kind, 'stream', 'a scanner reaches no other host');
    assert.deepEqual(asked, keptOnly);
  }
});

test('redirects go to clients only where the operator has chosen that', async () => {
  const { asked } = await opened({ mode: 'redirect' });
  assert.deepEqual(asked, ['relay r.example.com/team/app 1000000 handOn']);
  const scanned = await opened({ mode: 'redirect', reader: 'scanner' });
  assert.deepEqual(scanned.asked, relayedOnly, 'a scanner reaches no other host');
});

test('a cached registry is asked once: the copy fills while it is read', async () => {
  const { found, asked } = await opened({ mode: 'cache' });
  assert.deepEqual(asked, ['cached blobs: registry', 'join', 'copy 0-999999']);
  assert.ok(found.kind === 'stream' && found.delivery === 'stored' && found.isVerified);
  assert.equal(found.size, size);
  const kept = await opened({ mode: 'cache', kept: size, from: 'repository' });
  assert.deepEqual(kept.asked, ['read 0-999999', 'cached blobs: cache', 'used']);
  const own = await opened({ mode: 'cache', kept: size, isOwned: true });
  assert.deepEqual(own.asked, keptOnly, 'content of the image is not a cached blob');
  const access = { registry: ownHost };
  const hosted = await opened({ mode: 'cache', kept: size, access, isShown: true });
  assert.ok(!hosted.asked.includes('cached blobs: cache'), 'nor is that of a hosted repository');
});

test('builders fill the cache, whatever the mode of the registry', async () => {
  for (const mode of ['relay', 'redirect'] as const) {
    const { asked } = await opened({ mode, reader: 'builder' });
    assert.deepEqual(asked, ['cached blobs: registry', 'join', 'copy 0-999999']);
  }
});

test('content that no manifest names is served from the cache once the registry has shown it', async () => {
  const state: State = { mode: 'cache', member: undefined, kept: size };
  const head = 'head r.example.com/team/app';
  await assert.rejects(opened({ ...state, from: 'repository' }), { kind: 'blob-unknown' });
  const { asked } = await opened({ ...state, from: 'repository', isShown: true });
  assert.deepEqual(asked, [head, 'read 0-999999', 'cached blobs: cache', 'used']);
  const other = await opened({ ...state, from: 'registry', isShown: true });
  const joined = ['cached blobs: registry', 'join', 'copy 0-999999'];
  assert.deepEqual(other.asked, [head, ...joined]);
  const { kept: _, ...unkept } = state;
  const gone = await opened({ ...unkept, from: 'repository', isShown: true });
  assert.deepEqual(gone.asked, [head, ...joined]);
});

test('a pull continues where no copy can be kept', async () => {
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' });
  for (const state of [{ unwritable: full }, { isUncached: true }]) {
    const { asked } = await opened({ mode: 'cache', ...state });
    assert.deepEqual(asked, ['cached blobs: registry', 'join', ...relayedOnly]);
  }
  const refused = new Fault('denied', 'no right');
  await assert.rejects(opened({ mode: 'cache', unwritable: refused }), refused);
});

test('a reader leaves the transfer if its part does not exist', async () => {
  const { finder, image, asked } = world({ mode: 'cache' });
  const outside = new Fault('range-invalid', 'outside');
  const rangeOf = () => {
    throw outside;
  };
  await assert.rejects(finder.open(image, blob, rangeOf, signal), outside);
  assert.deepEqual(asked.slice(-2), ['join', 'leave']);
});

test('another server of the site sends what it may have, in the right of the caller', async () => {
  const orderOf = async (state: State) => {
    const { finder, image, asked } = world(state);
    return { order: await finder.order(image, blob), asked };
  };
  const stored = { kind: 'stored', digest: blob, size, isWatched: true };
  const kept = await orderOf({ kept: size, from: 'repository' });
  assert.deepEqual(kept, { order: stored, asked: ['used'] });
  const small = await orderOf({ kept: 10, member: { size: 10 }, isOwned: true });
  assert.deepEqual(small, { order: undefined, asked: [] });
  const access = { registry: 'r.example.com', repository: 'team/app', credentials: undefined };
  for (const [mode, redirects] of [
    ['relay', 'follow'],
    ['redirect', 'handOn'],
  ] as const) {
    const order = { kind: 'relayed', blob: { access, digest: blob, size }, redirects };
    assert.deepEqual((await orderOf({ mode, kept: size })).order, order, 'no right to the copy');
  }
  const unnamed = (await orderOf({ member: undefined })).order;
  assert.ok(unnamed?.kind === 'relayed' && unnamed.blob.size === undefined);
  for (const state of [{ mode: 'cache' }, { reader: 'builder' }] as const) {
    assert.equal((await orderOf(state)).order, undefined, 'only this server keeps copies');
  }
  assert.equal((await orderOf({ access: { registry: ownHost } })).order, undefined);
});

test('bytes in memory with the image are served from there, whole or in part', async () => {
  const bytes = Buffer.from('0123456789');
  const held = { digest: blob, mediaType: 'x', bytes };
  const range = { start: 2, end: 3 };
  const { finder, image, asked } = world({ held, kept: size, isOwned: true });
  assert.equal(await finder.head(image, blob, signal), 10);
  assert.equal(await finder.order(image, blob), undefined, 'another server does not have them');
  for (const [found, text] of [
    [await finder.open(image, blob, undefined, signal), '0123456789'],
    [await finder.open(image, blob, () => range, signal), '23'],
    [blobOfBytes(bytes, () => undefined), '0123456789'],
  ] as const) {
    assert.ok(found.kind === 'stream' && found.delivery === 'stored' && found.isVerified);
    assert.equal(found.size, 10);
    assert.equal(String((await found.source.read())?.bytes), text);
    assert.equal(await found.source.read(), null);
  }
  assert.deepEqual(asked, []);
});

test('a kept blob is read from its first to its last byte', async () => {
  const reads: number[] = [];
  const source: ByteSource = { read: async () => null, destroy() {} };
  const content = {
    link: async () => undefined,
    open: (_: Digest, start: number, end: number) => {
      reads.push(start, end);
      return source;
    },
  };
  const expected: FoundBlob = {
    kind: 'stream',
    size: 10,
    source,
    delivery: 'stored',
    isVerified: true,
  };
  assert.deepEqual(await keptBlob(content, blob, 10, undefined), expected);
  assert.deepEqual(await keptBlob(content, blob, 10, () => undefined), expected);
  assert.deepEqual(await keptBlob(content, blob, 10, () => ({ start: 2, end: 3 })), expected);
  assert.deepEqual(reads, [0, 9, 0, 9, 2, 3]);
});
