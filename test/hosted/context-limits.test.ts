/** The limits of uploaded build contexts, and their removal. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createAccountCheck } from '../../src/hosted/accounts/account-check.ts';
import { createAuthenticator, createRegistryTokens } from '../../src/hosted/authenticator.ts';
import { contextRepository } from '../../src/hosted/uploads/context-repository.ts';
import { purgeContexts } from '../../src/hosted/uploads/purge-contexts.ts';
import { createQuota } from '../../src/hosted/uploads/quota.ts';
import { createReservations } from '../../src/hosted/uploads/reservations.ts';
import { digestOf, mediaTypes } from '../../src/oci/index.ts';
import { createContentRowStore } from '../../src/storage/rows/content-rows.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import {
  type ContextRow,
  type ContextStore,
  createContextStore,
  createHostedStore,
} from '../../src/storage/rows/hosted/hosted-rows.ts';
import { firstPlace } from '../../src/storage/rows/hosted/hosted-store.ts';

const own = contextRepository({ user: 'ada' });
const network = contextRepository({ network: '192.0.2.1' });
const neighbour = contextRepository({ network: '192.0.2.2' });

suite('uploaded contexts', () => {
  const database = openDatabase(':memory:');
  const store = createHostedStore(database);
  const contexts = createContextStore(database);
  const contents = createContentRowStore(database);

  /** Stores a context with these blobs, each linked at its time. */
  const put = async (repository: string, name: string, blobs: Record<string, number>) => {
    const digest = digestOf(name);
    const limits = {
      maxBlobBytes: undefined,
      maxRepositoryBytes: undefined,
      maxTotalBytes: undefined,
    };
    const parts = Object.keys(blobs).map(blob => ({ digest: digestOf(blob), size: 100 }));
    for (const one of [digest, ...parts.map(part => part.digest)]) {
      await contents.announce(one, 100);
      await contents.arrive(one);
    }
    for (const [blob, at] of Object.entries(blobs)) {
      await store.putBlob({ repository, digest: digestOf(blob), size: 100, at, limits });
    }
    const manifest = { digest, mediaType: mediaTypes.ociManifest, size: 10, subject: null };
    const pushed = await store.putManifest({
      ...{ repository, manifests: [], tags: [], limits },
      manifest: { ...manifest, artifactType: null, annotations: null },
      blobs: parts.map(part => ({ ...part, isOptional: false })),
    });
    assert.equal(pushed.kind, 'put');
    return digest;
  };

  test('each owner has a separate repository', () => {
    assert.equal(new Set([own, network, neighbour]).size, 3);
    assert.notEqual(contextRepository({ user: '192.0.2.1' }), network);
    assert.match(own, /^contexts\/users\/[0-9a-f]{32}$/);
  });

  test('a context that was not pushed again is removed, although a newer one shares its blobs', async () => {
    const old = await put(own, 'old', { shared: 1000, 'old list': 1000 });
    const fresh = await put(own, 'fresh', { shared: 5000, 'new list': 5000 });
    const image = await put('team/app', 'image', { layer: 1000 });
    await purgeContexts(contexts, 3000);
    assert.equal(await store.manifest(own, old), undefined);
    assert.ok(await store.manifest(own, fresh));
    assert.ok(await store.manifest('team/app', image), 'another repository is not touched');
    const lone = (await store.loneBlobsAfter(firstPlace, 100)).filter(({ isLone }) => isLone);
    assert.deepEqual(
      lone.map(({ digest }) => digest),
      [digestOf('old list')],
    );
  });

  test('a context that is pushed again during the removal of old ones stays', async () => {
    const repository = contextRepository({ user: 'grace' });
    const again = await put(repository, 'again', { 'list of again': 1000 });
    const pushing: ContextStore = {
      ...contexts,
      async after(...asked) {
        const page = await contexts.after(...asked);
        if (page.some(({ digest }) => digest === again)) {
          await put(repository, 'again', { 'list of again': 5000 });
        }
        return page;
      },
    };
    await purgeContexts(pushing, 3000);
    assert.ok(await store.manifest(repository, again));
  });

  test('pages of contexts contain each context once', async () => {
    const names = ['users/a', 'users/a/b', 'users/b'].map(name => `paged/${name}`);
    for (const name of names) {
      for (const context of ['x', 'y', 'z']) await put(name, context, { [context]: 1000 });
    }
    await put('paged', 'outside', { outside: 1000 });
    await put('pagedd/other', 'outside', { outside: 1000 });
    const seen: string[] = [];
    let last: ContextRow | undefined;
    do {
      const page = await contexts.after('paged/', last, 3000, 2);
      last = page.at(-1);
      for (const { repository, digest } of page) seen.push(`${repository}@${digest}`);
    } while (last);
    assert.equal(seen.length, 9);
    assert.equal(new Set(seen).size, 9);
    assert.ok(seen.every(name => name.startsWith('paged/users/')));
  });

  test('nobody can pull the contexts of others, even where everybody may pull everything', () => {
    const accounts = new Map();
    const authenticator = createAuthenticator({
      ...{ accounts, accountCheck: createAccountCheck(accounts), hasAccountFiles: false },
      anonymous: ['*'],
      tokens: createRegistryTokens(Buffer.alloc(32, 1), 'registry.example.com'),
    });
    assert.deepEqual(authenticator.anybody('team/app'), ['pull']);
    assert.deepEqual(authenticator.anybody(own), []);
  });

  test('users, networks and all networks together have limits', async () => {
    const quota = createQuota(
      store,
      { maxBlobBytes: undefined, maxRepositoryBytes: undefined, maxTotalBytes: undefined },
      { maxContextBytes: 1000, maxNetworkBytes: 500, maxBytes: 700 },
    );
    await quota.admit(own, 600);
    await assert.rejects(
      quota.admit(own, 900),
      /You can store .* 1000 bytes.*hosted.maxContextBytes/,
    );
    await put(network, 'one', { a: 1, b: 1, c: 1 });
    await quota.admit(network, 150);
    await assert.rejects(quota.admit(network, 300), /Your network.*500.*maxNetworkBytes/);
    await quota.admit(neighbour, 300);
    await assert.rejects(quota.admit(neighbour, 450), /Callers without a login.*700/);
    await quota.admit('team/app', 1_000_000);

    const reserve = createReservations();
    reserve(neighbour).set(300);
    const upload = reserve(contextRepository({ network: '192.0.2.3' }));
    upload.set(150);
    await assert.rejects(
      quota.admit(contextRepository({ network: '192.0.2.3' }), 150, upload.others()),
      /Callers without a login.*700/,
      'uploads of other networks at the same moment count',
    );
  });
});
