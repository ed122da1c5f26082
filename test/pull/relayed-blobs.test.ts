/** Blobs of other registries: who shares a transfer with whom, and what the registry is asked for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import type { BlobRelays } from '../../src/pull/blobs/blob-relays.ts';
import { createRelayedBlobs, type RelayedBlob } from '../../src/pull/blobs/relayed-blobs.ts';
import { type ByteSource, drain } from '../../src/storage/content/byte-source.ts';
import type { Access } from '../../src/upstream/access.ts';
import type { OpenBlobOptions, OpenedBlob } from '../../src/upstream/registry-client.ts';

const bytes = Buffer.from('the bytes of a blob');
const digest = digestOf(bytes);
const size = bytes.length;
const { signal } = new AbortController();
const ada = { kind: 'password', username: 'ada', password: 'secret' } as const;
const access: Access = { registry: 'r.example.com', repository: 'team/app', credentials: ada };
const location = new URL('https://cdn.example.com/x');

interface State {
  /** What the registry reports; default: the size. */
  head?: number | undefined;
  /** The size in its response to GET. */
  total?: number | undefined;
  /** `always` also redirects requests that must be followed. */
  redirects?: 'handed on' | 'always';
  /** Breaks the first body off after so many bytes. */
  breaksAfter?: number;
}

/** A registry with the blob, and what it was asked for. */
function world(state: State = {}, trustMs = 0) {
  const heads: Digest[] = [];
  const gets: OpenBlobOptions[] = [];
  const keys: string[] = [];
  const destroyed: unknown[] = [];
  const sourceOf = (part: Buffer, isBroken: boolean): ByteSource => {
    let rest: Buffer | null = part;
    return {
      async read() {
        const chunk = rest;
        rest = null;
        if (chunk) return { bytes: chunk, release() {} };
        if (isBroken) throw Object.assign(new Error('reset'), { code: 'ECONNRESET' });
        return null;
      },
      destroy: reason => destroyed.push(reason),
    };
  };
  const registry = {
    async headBlob(_: Access, asked: Digest) {
      heads.push(asked);
      return 'head' in state ? state.head : size;
    },
    async openBlob(_: Access, _digest: Digest, options: OpenBlobOptions): Promise<OpenedBlob> {
      gets.push(options);
      const isHanded = state.redirects === 'handed on' && options.redirects === 'handOn';
      if (isHanded || state.redirects === 'always') return { kind: 'redirect', location };
      const { offset = 0, last = size - 1 } = options;
      const { breaksAfter } = state;
      const isBroken = breaksAfter !== undefined && gets.length === 1;
      const part = bytes.subarray(offset, isBroken ? breaksAfter : last + 1);
      return {
        ...{ kind: 'bytes', offset, total: 'total' in state ? state.total : size },
        response: {
          ...{ status: 200, headers: new Map(), contentLength: part.length },
          body: sourceOf(part, isBroken),
        },
      };
    },
  };
  const relays: BlobRelays = {
    open(key, direct, wanted, wantedSize, by) {
      keys.push(key);
      assert.deepEqual([wanted.digest, by], [digest, signal]);
      assert.ok(wantedSize === undefined || wantedSize > 0);
      return direct();
    },
  };
  const blobs = createRelayedBlobs({ registry, relays, stallMs: 60_000, trustMs });
  return { blobs, heads, gets, keys, destroyed };
}

async function read(found: Awaited<ReturnType<ReturnType<typeof world>['blobs']['open']>>) {
  assert.ok(found.kind === 'stream');
  const parts: Uint8Array[] = [];
  await drain(found.source, async part => void parts.push(Buffer.from(part)));
  return Buffer.concat(parts).toString();
}

test('clients share a transfer only with the same right to the same blob', async () => {
  const { blobs, keys } = world();
  const usual: RelayedBlob = { access, digest, size };
  const others: RelayedBlob[] = [
    { ...usual, access: { ...access, registry: 'other.example.com' } },
    { ...usual, access: { ...access, repository: 'team/other' } },
    { ...usual, access: { ...access, credentials: { ...ada, password: 'another' } } },
    { ...usual, access: { ...access, credentials: { ...ada, username: 'bob' } } },
    { ...usual, access: { ...access, credentials: undefined } },
    { ...usual, size: size + 1 },
    { ...usual, size: undefined },
  ];
  for (const blob of [usual, { ...usual }, ...others]) {
    await blobs.open(blob, undefined, 'follow', signal);
  }
  const [one, same, ...rest] = keys;
  assert.equal(one, same);
  assert.equal(new Set(keys).size, 1 + others.length);
  assert.ok(rest.every(key => key !== one));
  assert.ok(!keys.some(key => key.includes('secret')), 'no key has a password');
});

test('another blob is another transfer', async () => {
  const seen = new Set<string>();
  const relays: BlobRelays = {
    async open(key, _direct, wanted) {
      seen.add(key);
      seen.add(wanted.digest);
      return { kind: 'redirect', location };
    },
  };
  const registry = { headBlob: async () => size, openBlob: () => assert.fail() };
  const blobs = createRelayedBlobs({ registry, relays, stallMs: 1, trustMs: 0 });
  for (const one of [digest, digestOf('another')]) {
    await blobs.open({ access, digest: one, size }, undefined, 'follow', signal);
  }
  assert.equal(seen.size, 4);
});

test('a part is requested alone, and only its bytes', async () => {
  const { blobs, gets, keys, heads } = world();
  const blob = { access, digest, size };
  const part = await blobs.open(blob, () => ({ start: 4, end: 8 }), 'follow', signal);
  assert.equal(await read(part), 'bytes');
  const [{ signal: given, ...asked } = {} as never] = gets;
  assert.deepEqual(asked, { offset: 4, size, last: 8, redirects: 'follow' });
  assert.equal(given, signal);
  const rest = await blobs.open(blob, () => ({ start: 4, end: size - 1 }), 'follow', signal);
  assert.equal(await read(rest), 'bytes of a blob');
  assert.ok(
    !('last' in (gets[1] ?? {})),
    'the rest has no end: some registries redirect only that',
  );
  assert.deepEqual([keys, heads], [[], []]);
  assert.ok(part.kind === 'stream' && part.size === size && part.delivery === 'relayed');
});

test('the part of a blob without a known size needs the size first', async () => {
  const { blobs, heads, keys, gets } = world();
  const seen: number[] = [];
  const rangeOf = (total: number) => {
    seen.push(total);
    return { start: 0, end: 2 };
  };
  const part = await blobs.open({ access, digest, size: undefined }, rangeOf, 'follow', signal);
  assert.equal(await read(part), 'the');
  assert.deepEqual([seen, heads, keys], [[size], [digest], []]);
  const whole = await blobs.open({ access, digest, size: undefined }, undefined, 'follow', signal);
  assert.equal(await read(whole), bytes.toString());
  assert.equal(heads.length, 1, 'the whole needs none');
  const asWhole = { access, digest, size: undefined };
  assert.ok(await blobs.open(asWhole, () => undefined, 'follow', signal));
  assert.equal(gets.at(-1)?.size, size, 'what was asked for is used');
});

test('the size of a blob is that of the answer, of the manifest, or of another question', async () => {
  for (const [state, named, expected, requests] of [
    [{}, undefined, size, 0],
    [{ total: undefined }, size, size, 0],
    [{ total: undefined }, undefined, size, 1],
  ] as const) {
    const { blobs, heads } = world(state);
    const found = await blobs.open({ access, digest, size: named }, undefined, 'follow', signal);
    assert.ok(found.kind === 'stream');
    assert.equal(found.size, expected);
    assert.equal(heads.length, requests);
  }
});

test('a body without a size, or without bytes, is destroyed', async () => {
  for (const state of [{ total: undefined, head: undefined }, { total: 0 }]) {
    const { blobs, destroyed } = world(state);
    const open = blobs.open({ access, digest, size: undefined }, undefined, 'follow', signal);
    await assert.rejects(open, { status: 502 });
    assert.equal(destroyed.length, 1);
  }
});

test('a registry that reports another size than the manifest, or none, is at fault', async () => {
  const blob = { access, digest, size };
  assert.equal(await world().blobs.size(blob, signal), size);
  assert.equal(await world().blobs.size({ ...blob, size: undefined }, signal), size);
  const other = { message: /The registry has 7 bytes for the blob .*, not 19 as its manifest/ };
  await assert.rejects(world({ head: 7 }).blobs.size(blob, signal), other);
  const none = { kind: 'upstream', message: /does not report the size of/ };
  await assert.rejects(world({ head: undefined }).blobs.size(blob, signal), none);
});

test('a redirect goes to the client that may have it, and to nobody else', async () => {
  const blob = { access, digest, size };
  const { blobs } = world({ redirects: 'handed on' });
  const redirect = { kind: 'redirect', location };
  assert.deepEqual(await blobs.open(blob, undefined, 'handOn', signal), redirect);
  assert.equal((await blobs.open(blob, undefined, 'follow', signal)).kind, 'stream');
  assert.equal((await blobs.opening(blob)(signal)).size, size, 'a copy needs the bytes');
  const stubborn = world({ redirects: 'always' }).blobs;
  await assert.rejects(stubborn.opening(blob)(signal), /a redirect was not followed/);
});

test('a body that breaks off goes on where it was, also where its beginning was redirected', async () => {
  const { blobs, gets } = world({ breaksAfter: 4 });
  const found = await blobs.open({ access, digest, size }, undefined, 'handOn', signal);
  assert.equal(await read(found), bytes.toString());
  const how = gets.map(({ offset, redirects }) => `${offset} ${redirects}`);
  assert.deepEqual(how, ['0 handOn', '4 follow']);
});

test('a blob that was verified whole is trusted for its registry, for a time', async () => {
  const { blobs } = world({}, 60_000);
  const open = async (one: Access) => {
    const found = await blobs.open({ access: one, digest, size }, undefined, 'follow', signal);
    assert.ok(found.kind === 'stream');
    return found;
  };
  const first = await open(access);
  assert.equal(first.isVerified, false);
  first.onVerified?.();
  assert.equal((await open(access)).isVerified, true);
  assert.equal((await open({ ...access, registry: 'other.example.com' })).isVerified, false);
});
