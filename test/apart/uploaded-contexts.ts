/** Build contexts that others have uploaded: whoever knows their digests does not get their files. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, suite, test } from 'node:test';
import { contextTypes, writeEntries } from '../../src/contexts/entry-list.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { type ApartWorld, image, type Person } from './apart-world.ts';

interface Part {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly urls?: readonly string[];
}

/** The build context of a caller that has one file with a secret. */
interface Upload {
  readonly repository: string;
  readonly location: string;
  readonly config: Part;
  readonly content: Part;
}

const partOf = (mediaType: string, bytes: Buffer): Part => ({
  mediaType,
  digest: digestOf(bytes),
  size: bytes.length,
});
const elsewhere = (part: Part): Part => ({ ...part, urls: ['https://example.org/blob'] });

export function uploadedContexts(worldOf: () => ApartWorld): void {
  suite('uploaded build contexts of others', { concurrency: 1 }, () => {
    let world: ApartWorld;

    before(() => {
      world = worldOf();
    });

    const repositoryOf = async (person: Person) => {
      const token = world.tokens[person];
      const response = await world.server.fetch('/v1alpha1/contexts', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(token === undefined ? {} : { towerAccessToken: token }),
      });
      assert.equal(response.status, 200);
      const granted = (await response.json()) as Record<
        'registry' | 'repository' | 'token',
        string
      >;
      const send = (method: string, path: string, body: Buffer | string, type: string) =>
        world.server.fetch(`/v2/${granted.repository}/${path}`, {
          method,
          headers: { authorization: `Bearer ${granted.token}`, 'content-type': type },
          body,
        });
      return {
        repository: granted.repository,
        /** Returns the status of a mount of a blob, or of an upload of bytes. */
        mount: async (query: string) =>
          (await send('POST', `blobs/uploads/?${query}`, '', 'application/octet-stream')).status,
        async put(bytes: Buffer) {
          const path = `blobs/uploads/?digest=${digestOf(bytes)}`;
          const pushed = await send('POST', path, bytes, 'application/octet-stream');
          assert.equal(pushed.status, 201);
        },
        /** Pushes a manifest, and returns the location of its context. */
        async context(config: Part, content: Part, type: string = mediaTypes.ociManifest) {
          const manifest = JSON.stringify({
            schemaVersion: 2,
            ...(type === mediaTypes.ociManifest ? { mediaType: type } : {}),
            ...{ artifactType: contextTypes.artifact, config, layers: [content] },
          });
          const digest = digestOf(manifest);
          const { status } = await send('PUT', `manifests/${digest}`, manifest, type);
          const location = `oci://${granted.registry}/${granted.repository}@${digest}`;
          return { status, location };
        },
      };
    };
    const upload = async (person: Person, secret: string): Promise<Upload> => {
      const { repository, put, context } = await repositoryOf(person);
      const bytes = Buffer.from(secret);
      const list = writeEntries([{ path: 'file', kind: 'file', mode: 0o644, size: bytes.length }]);
      await put(bytes);
      await put(list);
      const parts = [partOf(contextTypes.list, list), partOf(contextTypes.content, bytes)] as const;
      const { status, location } = await context(...parts);
      assert.equal(status, 201);
      return { repository, location, config: parts[0], content: parts[1] };
    };
    const copy = (person: Person, location: string) =>
      world.build(person, [`FROM ${world.base}`, 'COPY file /copy', 'RUN cat /copy'], {
        buildContext: { location },
      });

    for (const [owner, other] of [
      ['ada', 'eve'],
      ['ada', 'stranger'],
      ['stranger', 'eve'],
    ] as const) {
      test(`${other} gets nothing from the digests of the context of ${owner}`, async () => {
        // Lists with equal sizes would be equal.
        const secret = `${owner}, not ${other}: ${randomUUID()}`;
        const { repository, location, config, content } = await upload(owner, secret);
        const made = await copy(owner, location);
        assert.equal(image(made).files.get('/copy'), secret, 'control: the owner may use it');
        const own = await repositoryOf(other);
        const list = writeEntries([
          { path: 'file', kind: 'file', mode: 0o644, size: content.size },
        ]);
        assert.equal(digestOf(list), config.digest, 'control: the list is the same');

        const digest = location.replace(/.*@/, '');
        const named = location.replace(repository, own.repository);
        for (const [what, tried] of [
          ['the location of its owner', location],
          ['its digest in the own repository', named],
        ] as const) {
          const built = await copy(other, tried);
          assert.equal(built.succeeded, false, what);
          assert.ok(!built.all.includes(secret), what);
        }
        for (const blob of [content.digest, config.digest, digest]) {
          for (const from of ['', `&from=${repository}`]) {
            assert.equal(await own.mount(`mount=${blob}${from}`), 202, `mount ${blob}${from}`);
          }
        }
        assert.equal((await own.context(config, content)).status, 404, 'blobs of others');
        // The registry accepts these manifests without the blobs.
        for (const [what, parts, type] of [
          ['both with an address elsewhere', [elsewhere(config), elsewhere(content)]],
          ['an index, whose blobs are not its parts', [config, content], mediaTypes.ociIndex],
        ] as const) {
          const pushed = await own.context(parts[0], parts[1], type);
          assert.equal(pushed.status, 201, what);
          const built = await copy(other, pushed.location);
          assert.ok(!built.all.includes(secret), `${what}:\n${built.all}`);
          assert.match(built.all, /The build context is not complete here/, what);
        }
        await own.put(list);
        const pushed = await own.context(config, elsewhere(content));
        const built = await copy(other, pushed.location);
        assert.ok(!built.all.includes(secret), built.all);
        assert.match(built.all, /The build context is not complete here/);
        // A wrong size does not tell that the content exists.
        const sized = await own.context(config, elsewhere({ ...content, size: content.size + 1 }));
        assert.match((await copy(other, sized.location)).all, /is not complete here/);
      });
    }
  });
}
