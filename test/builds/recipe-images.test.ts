/** The images of a recipe are checked with the rights of its caller: its base images, and those that their triggers pull. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RecipeOrigin } from '../../src/builds/plan/build-plan.ts';
import { checkRecipeImages, findBase } from '../../src/builds/solve/bases/base-check.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { formatReference, parseReference } from '../../src/oci/naming.ts';

const host = 'registry.example.com';
const named = (name: string) => `${host}/${name}:1`;
const copies = (...names: string[]) => names.map(name => `COPY --from=${named(name)} / /`);

/** An image with the triggers. */
function imageOf(name: string, triggers: readonly string[]) {
  const config = Buffer.from(
    JSON.stringify({
      ...{ architecture: 'amd64', os: 'linux', author: name },
      ...{ config: { OnBuild: triggers }, rootfs: { type: 'layers', diff_ids: [] } },
    }),
  );
  const manifest = {
    ...{ schemaVersion: 2, mediaType: mediaTypes.ociManifest, layers: [] },
    config: { mediaType: mediaTypes.ociConfig, digest: digestOf(config), size: config.length },
  };
  return {
    root: documentOf(Buffer.from(JSON.stringify(manifest)), mediaTypes.ociManifest),
    config: documentOf(config, mediaTypes.ociConfig),
  };
}

/** Images by their names, which have these triggers. Notes what is asked for. */
function worldOf(triggers: Readonly<Record<string, readonly string[]>>) {
  const images = new Map(
    Object.entries(triggers).map(([name, list]) => [named(name), imageOf(name, list)]),
  );
  const all = [...images.values()];
  const asked: string[] = [];
  const read: string[] = [];
  const registry = {
    async headManifest({ repository }: { repository: string }, reference: string) {
      const name = formatReference(parseReference(`${host}/${repository}:${reference}`));
      asked.push(name);
      const image = images.get(name);
      if (!image) throw new Fault('denied', 'it says no', { phase: 'upstream' });
      return { digest: image.root.digest, mediaType: image.root.mediaType };
    },
  };
  const documents = {
    async manifest(_access: unknown, digest: string) {
      read.push(digest);
      return all.find(({ root }) => root.digest === digest)?.root;
    },
    async config(_access: unknown, { digest }: { digest: string }) {
      return all.find(({ config }) => config.digest === digest)?.config;
    },
  };
  type Deps = Parameters<typeof checkRecipeImages>[1];
  const deps = { registry, documents } as unknown as Deps;
  const check = async (recipe: Partial<RecipeOrigin> = {}, more: Partial<Deps> = {}) => {
    const whole = {
      ...{ kind: 'recipe', dockerfile: `FROM ${named('a')}`, platforms: ['linux/amd64'] },
      ...{ baseImages: [named('a')] },
      ...recipe,
    };
    const given = { ...deps, ...more };
    const found = await checkRecipeImages(whole as RecipeOrigin, given, async () => undefined);
    return found.map(({ name }) => name.slice(host.length + 1, -2));
  };
  return { check, asked, read, images, documents };
}

test('images that triggers pull are checked, and those of their triggers, each once', async () => {
  const { check, asked } = worldOf({
    a: copies('b', 'c'),
    b: copies('d', 'a'),
    c: copies('d'),
    d: [],
  });
  assert.deepEqual(await check(), ['a', 'b', 'c', 'd']);
  assert.deepEqual(asked, ['a', 'b', 'c', 'd'].map(named));
  await assert.rejects(worldOf({ a: copies('closed') }).check(), {
    ...{ kind: 'bad-request', phase: 'build' },
    message: `The base image ${named('closed')} is unavailable: it says no`,
  });
  assert.deepEqual(await worldOf({}).check({ baseImages: [] }), []);
});

test('triggers lead to few others, and to as many images as a build may have', async () => {
  const chain = (length: number) =>
    worldOf(
      Object.fromEntries(
        Array.from({ length }, (_, at) => [
          at === 0 ? 'a' : `n${at}`,
          at === length - 1 ? [] : copies(`n${at + 1}`),
        ]),
      ),
    ).check();
  assert.equal((await chain(5)).length, 5);
  await assert.rejects(chain(6), /more than 100 images by ONBUILD/);
  const wide = (count: number) => {
    const names = Array.from({ length: count }, (_, at) => `n${at}`);
    return worldOf({ a: copies(...names), ...Object.fromEntries(names.map(name => [name, []])) });
  };
  assert.equal((await wide(99).check()).length, 100);
  const { check, asked } = wide(100);
  await assert.rejects(check(), /more than 100 images by ONBUILD/);
  assert.equal(asked.length, 1);
});

test('the triggers of an image run in the stages and with the options of the recipe', async () => {
  const images = { a: ['COPY --from=made / /'], b: [], c: [] };
  const dockerfile = `ARG FROM=${named('b')}\nFROM $FROM AS made\nFROM ${named('a')}`;
  const { check } = worldOf(images);
  assert.deepEqual(await check({ dockerfile }), ['a', 'b']);
  assert.deepEqual(await check({ dockerfile, options: { args: { FROM: named('c') } } }), [
    'a',
    'c',
  ]);
  const ofTarget = dockerfile.replace('$FROM', `${host}/$TARGETSTAGE:1`);
  const stages = worldOf({ ...images, made: [], default: [] });
  const options = { target: 'made' };
  assert.deepEqual(await stages.check({ dockerfile: ofTarget, options }), ['a', 'made']);
  assert.deepEqual(await stages.check({ dockerfile: ofTarget }), ['a', 'default']);
});

test('an image that replaces another one is checked in its place', async () => {
  const images = { a: copies('b'), b: [], c: [], d: [] };
  const replaced = { [named('b')]: named('c') };
  assert.deepEqual(await worldOf(images).check({ namedContexts: replaced }), ['a', 'c']);
  assert.deepEqual(
    await worldOf(images).check({
      namedContexts: replaced,
      sifBases: { [named('b')]: named('d') },
    }),
    ['a', 'd'],
  );
});

test('packages and Singularity images have no triggers', async () => {
  for (const recipe of [{ native: {} }, { sifBases: { x: named('a') } }]) {
    const { check, read } = worldOf({ a: copies('b'), b: [] });
    assert.deepEqual(await check(recipe as unknown as Partial<RecipeOrigin>), ['a']);
    assert.deepEqual(read, []);
  }
});

test('the image of a served name has its own documents, and no registry is asked for it', async () => {
  const { check, asked, read, images, documents } = worldOf({ a: copies('b'), b: [] });
  const { root } = images.get(named('a')) ?? assert.fail('the image exists');
  let configs = 0;
  const config: typeof documents.config = (given, descriptor) => {
    configs += 1;
    return documents.config(given, descriptor);
  };
  const access = { registry: 'of the request' };
  const served = { access, root, documents: { ...documents, config } };
  const findServedBase = async (image: unknown) =>
    formatReference(image as Parameters<typeof formatReference>[0]) === named('a')
      ? (served as never)
      : undefined;
  assert.deepEqual(await check({}, { findServedBase }), ['a', 'b']);
  assert.deepEqual(asked, [named('b')]);
  assert.deepEqual([read.length, configs], [1, 1], 'the manifest of the other one');
  const deps = { registry: {} as never, findServedBase };
  const base = await findBase(named('a'), deps, () =>
    assert.fail('it has the access of its request'),
  );
  assert.equal(base.access, served.access);
  assert.equal(base.served, served);
  assert.deepEqual([base.reference, base.digest], [root.digest, root.digest]);
});

test('an image is found by its digest, by its tag, or as the latest one', async () => {
  const digest = digestOf('image');
  for (const [name, reference] of [
    [`${host}/a`, 'latest'],
    [`${host}/a:2`, '2'],
    [`${host}/a@${digest}`, digest],
    [`${host}/a:2@${digest}`, digest],
  ] as const) {
    const headManifest = async (_access: unknown, given: string) => {
      assert.equal(given, reference);
      return { digest, mediaType: mediaTypes.ociManifest };
    };
    const deps = { registry: { headManifest } as never };
    const base = await findBase(name, deps, async ({ registry, repository }) => ({
      ...{ registry, repository, credentials: undefined },
    }));
    assert.equal(base.reference, reference);
  }
});
