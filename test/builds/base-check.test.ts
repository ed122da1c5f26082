/** Base images are checked with the rights of the caller of a build, at every kind of registry. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { checkBaseImages, findBase } from '../../src/builds/solve/bases/base-check.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import type { RegistryClient } from '../../src/upstream/registry-client.ts';

const name = 'registry.example.com/team/base:1';
const check = (registry: Partial<RegistryClient>) =>
  checkBaseImages([name], { registry: registry as RegistryClient }, async () => undefined);
const head = { digest: digestOf('base'), mediaType: mediaTypes.ociManifest };
const refuse = (kind: ConstructorParameters<typeof Fault>[0], retryAfterSeconds?: number) => () =>
  Promise.reject(
    new Fault(kind, 'it says no', {
      phase: 'upstream',
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    }),
  );

suite('base images', () => {
  test('an image that HEAD confirms is fetched by the builder only', async () => {
    await check({ headManifest: async () => head, getManifest: () => assert.fail('not needed') });
  });

  test('if HEAD gives no answer, the manifest is requested', async () => {
    let asked = 0;
    await check({
      headManifest: async () => undefined,
      getManifest: async () => {
        asked += 1;
        return documentOf(Buffer.from('{}'), mediaTypes.ociManifest);
      },
    });
    assert.equal(asked, 1);
    const closed = { headManifest: async () => undefined, getManifest: refuse('unauthorized') };
    await assert.rejects(check(closed), { kind: 'bad-request' });
  });

  test('what its registry has just shown is not asked for again', async () => {
    let asked = 0;
    const headManifest = async () => {
      asked += 1;
      return head;
    };
    const find = (at: number, shown: string) =>
      findBase(
        name,
        { registry: { headManifest } as unknown as RegistryClient },
        async ({ registry, repository }) => ({ registry, repository, credentials: undefined }),
        { at, bases: [{ name: shown, ...head }] },
      );
    const now = performance.now();
    assert.equal((await find(now, name)).digest, head.digest);
    assert.equal(asked, 0);
    await find(now - 1000, name);
    await find(now, 'registry.example.com/team/other:1');
    assert.equal(asked, 2);
  });

  test('the error names the image, whatever the cause', async () => {
    const message = `The base image ${name} is unavailable: it says no`;
    await assert.rejects(check({ headManifest: refuse('manifest-unknown') }), {
      ...{ message, kind: 'bad-request', phase: 'build' },
    });
    await assert.rejects(check({ headManifest: refuse('internal') }), {
      message,
      kind: 'internal',
    });
    await assert.rejects(check({ headManifest: refuse('upstream', 7) }), {
      ...{ message, kind: 'upstream', phase: 'upstream', retryAfterSeconds: 7 },
    });
  });
});
