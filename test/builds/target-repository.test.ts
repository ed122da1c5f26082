/** Where images are pushed: who may push, what a name refers to, and how much builds without a login may fill. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createTargetRepository,
  type TargetRepositoryDeps,
} from '../../src/builds/target-repository.ts';
import { Fault } from '../../src/foundation/fault.ts';
import type { SealedGrant } from '../../src/platform/index.ts';
import type { ExpiredBuild } from '../../src/storage/rows/images/build-rows.ts';

const host = 'images.example.com';
const head = { digest: `sha256:${'1'.repeat(64)}`, mediaType: 'manifest' };
const fault = (kind: ConstructorParameters<typeof Fault>[0]) =>
  new Fault(kind, 'it says no', { phase: 'upstream' });

interface Given {
  /** What the registry answers to a request for a manifest. */
  readonly found?: typeof head | Error;
  /** The error of a check of pushes. */
  readonly refusal?: Error | undefined;
  readonly filled?: number;
  readonly most?: number | undefined;
}

function targetOf(given: Given) {
  const asked: string[] = [];
  const current = { ...given };
  const deps = {
    registry: {
      async headManifest({ registry, repository }: Record<string, string>, reference: string) {
        asked.push(`head ${registry}/${repository}:${reference}`);
        if (current.found instanceof Error) throw current.found;
        return current.found ?? head;
      },
    },
    pusher: {
      async check({ registry, repository }: Record<string, string>) {
        asked.push(`push ${registry}/${repository}`);
        if (current.refusal) throw current.refusal;
      },
    },
    rightsOf: (grant: SealedGrant | undefined) => ({
      access: async ({ registry, repository }: Record<string, string>) => ({
        ...{ registry, repository },
        credentials: grant && { kind: 'password', username: 'u', password: String(grant) },
      }),
    }),
    ownHost: host,
    places: {
      repository: `${host}/builds`,
      cache: undefined,
      frozen: { docker: `${host}/kept` },
      local: { sif: `${host}/public/sif` },
    },
    hostedBytes: async (repository: string) => {
      asked.push(`bytes ${repository}`);
      return current.filled ?? 0;
    },
    maxAnonymousBytes: current.most,
  } as unknown as TargetRepositoryDeps;
  return { target: createTargetRepository(deps), asked, current };
}

const grant = (text: string) => text as unknown as SealedGrant;
const name = `${host}/team/app:1`;

test('a name refers to what its registry shows, by its tag or by latest', async () => {
  const { target, asked } = targetOf({});
  assert.deepEqual(await target.find(name, undefined), head);
  await target.find(`${host}/team/app`, undefined);
  assert.deepEqual(asked, [`head ${host}/team/app:1`, `head ${host}/team/app:latest`]);
  const missing = targetOf({ found: fault('manifest-unknown') });
  assert.equal(await missing.target.find(name, undefined), undefined);
  assert.equal(missing.asked.length, 1);
});

test('a repository that denies reads may be a new one: only for a caller that may push', async () => {
  const found = fault('denied');
  assert.equal(await targetOf({ found }).target.find(name, undefined), undefined);
  const closed = targetOf({ found, refusal: fault('denied') });
  await assert.rejects(closed.target.find(name, undefined), found);
  for (const other of [fault('upstream'), new Error('of no fault')]) {
    const { target, asked } = targetOf({ found: other });
    await assert.rejects(target.find(name, undefined), other);
    assert.equal(asked.length, 1);
  }
});

test('who may push to a repository is asked once for each repository and login', async () => {
  const { target, asked, current } = targetOf({});
  const names = [name, `${host}/team/other:1`, 'other.example.com/team/app:1'];
  for (let round = 0; round < 2; round += 1) {
    for (const one of names) await target.requirePush(one, undefined);
    await target.requirePush(name, grant('ada'));
    await target.requirePush(`${host}/team/app:2`, grant('ada'));
  }
  assert.equal(asked.length, 4);
  current.refusal = fault('denied');
  await assert.rejects(target.requirePush(name, grant('bob')), { kind: 'denied' });
  await assert.rejects(target.requirePush(name, grant('bob')), { kind: 'denied' });
  assert.equal(asked.length, 6);
});

test('builds without a login fill as much as they may, in a place with all below it', async () => {
  const full = { kind: 'storage-full', limit: 'builds without a login on the disk' };
  for (const [repository, place] of [
    ['builds', 'builds'],
    ['builds/samtools', 'builds'],
    ['kept/samtools', 'kept'],
    ['public/sif', 'public/sif'],
    ['public/sifted', 'public/sifted'],
    ['team/app', 'team/app'],
  ] as const) {
    const { target, asked, current } = targetOf({ filled: 99, most: 100 });
    await target.requireAnonymousRoom(`${host}/${repository}:1`);
    assert.deepEqual(asked, [`bytes ${place}`]);
    for (const filled of [100, 101]) {
      current.filled = filled;
      await assert.rejects(target.requireAnonymousRoom(`${host}/${repository}:1`), {
        ...full,
        message: new RegExp(`^The repository ${place} of this server holds 100 bytes`),
        retryAfterSeconds: 3600,
      });
    }
  }
  const elsewhere = targetOf({ filled: 1000, most: 100 });
  await elsewhere.target.requireAnonymousRoom('other.example.com/builds/app:1');
  assert.deepEqual(elsewhere.asked, []);
  const open = targetOf({ filled: 1000 });
  await open.target.requireAnonymousRoom(`${host}/builds/app:1`);
  assert.deepEqual(open.asked, []);
});

test('the image of a forgotten build is removed by its tag and digest', () => {
  const { target } = targetOf({});
  const removed = (image: string, digest: string | null = head.digest) =>
    target.removedWith({
      id: '1',
      target: image,
      digest,
      isTrusted: false,
    } as unknown as ExpiredBuild);
  assert.deepEqual(removed(`${host}/builds/app:1`), {
    ...{ repository: 'builds/app', tag: '1', digest: head.digest },
  });
  assert.equal(removed(`${host}/builds/app`)?.tag, 'latest');
  assert.equal(removed(`${host}/builds/app:1`, null), undefined);
  assert.equal(removed('other.example.com/builds/app:1'), undefined);
});
