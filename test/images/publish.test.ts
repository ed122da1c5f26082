/** Copying an image into a repository, when a part of it does not get there. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createPublish } from '../../src/images/publish.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import type { PushClient } from '../../src/upstream/push-client.ts';

const part = (content: string) => ({
  mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
  digest: digestOf(content),
  size: content.length,
});
const manifest = {
  schemaVersion: 2,
  mediaType: mediaTypes.ociManifest,
  config: { ...part('{}'), mediaType: 'application/vnd.oci.image.config.v1+json' },
  layers: ['one', 'two', 'three', 'four', 'five'].map(part),
};
const root = documentOf(Buffer.from(JSON.stringify(manifest)), mediaTypes.ociManifest);
const place = { registry: 'registry.example.com', repository: 'a', credentials: undefined };

test('one failed upload ends the others, and none starts after it', async () => {
  const begun: Digest[] = [];
  const ended: Digest[] = [];
  const refused = new Fault('denied', 'you may not', { phase: 'push' });
  const pusher: Partial<PushClient> = {
    putBlob: (_, { digest }, signal) => {
      begun.push(digest);
      const { promise, reject } = Promise.withResolvers<never>();
      if (digest === digestOf('one')) setImmediate(reject, refused);
      signal?.addEventListener('abort', () => {
        ended.push(digest);
        // It takes a while to put things away.
        setImmediate(reject, signal.reason);
      });
      return promise;
    },
    putManifest: () => assert.fail('nothing is tagged'),
  };
  const publish = createPublish({ pusher, ownHost: 'own.example.com' } as never);
  const publication = { image: { root, generated: new Map() }, added: [], source: place };
  await assert.rejects(
    publish(
      { ...publication, target: { ...place, repository: 'b' }, tag: '1' },
      () => {},
      new AbortController().signal,
    ),
    refused,
  );
  assert.deepEqual(begun.length, 3);
  const others = begun.filter(digest => digest !== digestOf('one'));
  assert.deepEqual(
    ended.filter(digest => digest !== digestOf('one')),
    others,
  );
});

test('an entry that several indexes name is pushed once', async () => {
  const indexOf = (document: typeof root, count: number) =>
    documentOf(
      Buffer.from(
        JSON.stringify({
          schemaVersion: 2,
          mediaType: mediaTypes.ociIndex,
          manifests: Array.from({ length: count }, () => ({
            mediaType: document.mediaType,
            digest: document.digest,
            size: document.bytes.length,
          })),
        }),
      ),
      mediaTypes.ociIndex,
    );
  const inner = indexOf(root, 100);
  const outer = indexOf(inner, 100);
  const pushed: string[] = [];
  const pusher: Partial<PushClient> = {
    putBlob: async () => 'mounted',
    putManifest: async (_, reference) => {
      pushed.push(reference);
      return {} as never;
    },
  };
  const publish = createPublish({ pusher, ownHost: 'own.example.com' } as never);
  const generated = new Map([inner, root].map(document => [document.digest, document]));
  await publish(
    { image: { root: outer, generated }, added: [], source: place, target: place, tag: '1' },
    () => {},
    new AbortController().signal,
  );
  assert.deepEqual(pushed, [root.digest, inner.digest, '1']);
});

test('each blob comes from its own place, and one with a proved right from a copy that is here', async () => {
  const parts = [manifest.config, ...manifest.layers].map(({ digest }) => digest);
  const [config, made, ofBase, copied] = parts as [Digest, Digest, Digest, Digest];
  const opened = new Set<string>();
  const content = {
    claim: async (digest: Digest) => digest === copied,
    open: (digest: Digest) => opened.add(`${digest} from here`),
  };
  const registry = {
    openBlob: async ({ repository }: typeof place, digest: Digest) => {
      opened.add(`${digest} from ${repository}`);
      return { kind: 'bytes', response: { body: {} }, offset: 0 };
    },
  };
  const sent = new Map<Digest, unknown>();
  const pusher: Partial<PushClient> = {
    putBlob: async ({ pushes }, { digest, isNew, open }) => {
      sent.set(digest, { isNew, mountFrom: pushes.mountFrom });
      await open();
      return 'sent';
    },
    putManifest: async () => ({ isReferrer: false }),
  };
  const publish = createPublish({
    ...{ pusher, content, registry, ownHost: 'own.example.com' },
  } as never);
  await publish(
    {
      image: { root, generated: new Map([[config, { ...root, bytes: Buffer.from('{}') }]]) },
      ...{ added: [made], source: place, target: { ...place, repository: 'b' }, tag: '1' },
      elsewhere: new Map([
        [ofBase, { ...place, repository: 'base' }],
        [copied, { ...place, registry: 'far.example.com' }],
      ]),
    },
    () => {},
    new AbortController().signal,
  );
  assert.deepEqual(
    [config, made, ofBase, copied].map(digest => sent.get(digest)),
    [
      { isNew: true, mountFrom: undefined },
      { isNew: false, mountFrom: undefined },
      { isNew: false, mountFrom: 'base' },
      { isNew: false, mountFrom: undefined },
    ],
  );
  assert.deepEqual(
    [`${made} from here`, `${ofBase} from base`, `${copied} from here`, `${ofBase} from a`].map(
      text => opened.has(text),
    ),
    [true, true, true, false],
  );
});

test('blobs that the registry has removed since it said that it has them are pushed again, once', async () => {
  const gone = new Fault('manifest-blob-unknown', 'push the blob first', { phase: 'push' });
  for (const refusals of [1, 2]) {
    const calls: string[] = [];
    const pusher: Partial<PushClient> = {
      async putBlob() {
        calls.push('blob');
        return 'there';
      },
      async putManifest() {
        calls.push('manifest');
        if (calls.filter(call => call === 'manifest').length <= refusals) throw gone;
        return { isReferrer: false };
      },
    };
    const publish = createPublish({ pusher, ownHost: 'own.example.com' } as never);
    const target = { ...place, repository: 'b' };
    const image = { root, generated: new Map() };
    const pushed = publish(
      { image, added: [], source: place, target, tag: '1' },
      () => {},
      new AbortController().signal,
    );
    if (refusals === 1) assert.deepEqual(await pushed, { isReferrer: false });
    else await assert.rejects(pushed, gone);
    const once = [...Array(6).fill('blob'), 'manifest'];
    assert.deepEqual(calls, [...once, ...once]);
  }
});
