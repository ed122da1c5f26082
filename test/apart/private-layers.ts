/** Layers of a private image: whoever knows their digests does not get them from the builder. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';
import { connect } from '../../src/buildkit/index.ts';
import { baseLayer } from '../corpus/base.ts';
import { type Image, imageOf } from '../corpus/image.ts';
import { type Layer, layerOf } from '../corpus/layer.ts';
import { eventually } from '../world/eventually.ts';
import { type ApartWorld, image } from './apart-world.ts';

/** Images of an attacker for a private layer: what can be written with the digests of its manifest and config. */
const baits: Readonly<Record<string, (base: Layer, layer: Layer) => Promise<Image>>> = {
  'its layer by digest, which the registry does not have': async (base, layer) => ({
    ...imageOf({ layers: [base, layer] }),
    gone: [layer.content],
  }),
  'its layer by digest, below another one': async (base, layer) => {
    const more = await layerOf([{ name: 'more', content: randomUUID() }]);
    return { ...imageOf({ layers: [base, layer, more] }), gone: [layer.content] };
  },
  'its diff_ids over other layers': async (base, layer) => {
    const bogus = await layerOf([{ name: 'bogus', content: randomUUID() }]);
    return imageOf({ layers: [base, { ...layer, content: bogus.content }] });
  },
};

/** Ways of a Dockerfile to the files of an image. */
const ways: Readonly<Record<string, (name: string, base: string) => string>> = {
  FROM: name => `FROM ${name}\nRUN cat /private | sed s/^/got-/\n`,
  'COPY --from': (name, base) =>
    `FROM ${base}\nCOPY --from=${name} /private /taken\nRUN cat /taken\n`,
  'RUN --mount': (name, base) =>
    `FROM ${base}\nRUN --mount=type=bind,from=${name},target=/image cat /image/private\n`,
  'a named context': (_, base) =>
    `FROM ${base}\nCOPY --from=stage /private /taken\nRUN cat /taken\n`,
  'only the push of the layers': name => `FROM ${name}\nENV taken=yes\n`,
};

export function privateLayers(worldOf: () => ApartWorld): void {
  suite('layers of private images', { concurrency: 1 }, () => {
    let world: ApartWorld;

    before(() => {
      world = worldOf();
    });

    for (const [what, make] of Object.entries(baits)) {
      test(`an image that names ${what}`, async () => {
        const secret = randomUUID();
        const base = await baseLayer();
        const layer = await layerOf([{ name: 'private', content: secret }]);
        // Messages have the names of images.
        const tag = randomUUID();
        const name = `private-${tag}`;
        const pinned = await world.push(world.closed, name, imageOf({ layers: [base, layer] }));
        const made = await world.build('ada', `FROM ${pinned}\nRUN cat /private > /copy\n`);
        assert.equal(image(made).files.get('/copy'), secret, 'control: Ada may use it');
        const refused = await world.build('eve', `FROM ${pinned}\nRUN cat /private\n`);
        assert.equal(refused.succeeded, false, 'control: Eve may not');

        const bait = await world.push(world.open, `bait-${tag}`, await make(base, layer));
        const leaks: string[] = [];
        for (const [way, dockerfile] of Object.entries(ways)) {
          for (const person of ['eve', 'stranger'] as const) {
            const fields = way === 'a named context' ? { namedContexts: { stage: bait } } : {};
            const { all } = await world.build(person, dockerfile(bait, world.base), fields);
            if (all.includes(secret)) leaks.push(`${person} with ${way}`);
          }
        }
        assert.deepEqual(leaks, [], 'have the private file');
        const again = await world.build('ada', `FROM ${pinned}\nRUN cat /private > /again\n`);
        assert.equal(image(again).files.get('/again'), secret, 'Ada still has the true one');
      });
    }

    test('an image of Ada that the builder has made is not available to others by its digest', async () => {
      const secret = randomUUID();
      const made = image(
        await world.build('ada', `FROM ${world.base}\nRUN echo ${secret} > /private\n`, {
          buildRepository: `${world.closed.host}/made-${secret}`,
        }),
      );
      const digest = made.digest;
      for (const person of ['eve', 'stranger'] as const) {
        for (const host of [world.closed.host, world.open.host]) {
          const text = ways.FROM?.(`${host}/made-${secret}@${digest}`, '') ?? '';
          const { all } = await world.build(person, text);
          assert.ok(!all.includes(`got-${secret}`), `${person} has it:\n${all}`);
        }
      }
    });

    test('the name by which a builder pulls a base is for this image and this build, and no step sees it', async () => {
      const layers = [await baseLayer(), await layerOf([{ name: 'own', content: randomUUID() }])];
      const made = imageOf({ layers });
      const pinned = await world.push(world.closed, `named-${randomUUID()}`, made);
      const other = await world.push(
        world.closed,
        `other-${randomUUID()}`,
        imageOf({ layers: layers.slice(0, 1) }),
      );
      const look = 'cat /proc/self/mountinfo /proc/self/environ /etc/hosts; mount; echo has looked';
      const id = await world.start('ada', [
        `FROM ${pinned}`,
        `RUN ${look}; until [ -e /tmp/never ] || [ $((i+=1)) -gt 600 ]; do sleep 0.5; done`,
      ]);
      await eventually(
        'the step runs',
        async () => /has looked/.test(await world.logOf(id)),
        60_000,
      );
      const names = await pulledNames(join(world.server.data, 'buildkit'));
      const name = names.find(one => one.endsWith(made.root.digest)) ?? '';
      const [, token = '', repository = ''] = /\/ct\/([^/]+)\/(.*)@sha256:/.exec(name) ?? [];
      assert.ok(token.length > 20, names.join());
      const get = async (path: string, of = repository) =>
        (await world.server.fetch(`/v2/ct/${token}/${of}/${path}`)).status;
      const [, otherDigest = ''] = other.split('@');
      assert.equal(await get(`manifests/${made.root.digest}`), 200, 'control: the builder gets it');
      assert.equal(await get(`manifests/${otherDigest}`), 404);
      assert.equal(
        await get(
          `manifests/${otherDigest}`,
          repository.replace(/named-.*/, other.split(/[/@]/)[1] ?? ''),
        ),
        404,
      );
      assert.equal(await get(`blobs/${otherDigest}`), 404);
      const taken = await world.build('eve', `FROM ${name}\nRUN cat /own\n`);
      assert.equal(taken.succeeded, false, 'no other build begins with it');
      assert.ok(!(await world.logOf(id)).includes(token));
      const details = await world.server.fetch(`/v1alpha1/builds/${id}`);
      assert.ok(!(await details.text()).includes(token));
      const stop = { method: 'DELETE', headers: { authorization: `Bearer ${world.tokens.ada}` } };
      assert.equal((await world.server.fetch(`/v1alpha1/builds/${id}`, stop)).status, 200);
      await world.finished(id);
      assert.equal(await get(`manifests/${made.root.digest}`), 404);
      assert.equal(await get(`blobs/${layers[1]?.content.digest}`), 404);
    });
  });
}

/** Returns the names by which the builders of a server have pulled images. */
async function pulledNames(directory: string): Promise<string[]> {
  const names: string[] = [];
  for (const domain of await readdir(directory)) {
    const note = await readFile(join(directory, domain, 'running.json'), 'utf8').catch(() => '{}');
    const { folder } = JSON.parse(note) as { readonly folder?: string };
    if (folder === undefined) continue;
    const client = connect(`unix://${folder}/buildkitd.sock`);
    const used = await client.diskUsage([], { timeoutMs: 10_000 }).catch(() => []);
    client.close();
    names.push(
      ...used.flatMap(({ description }) => /pulled from (\S+)/.exec(description)?.[1] ?? []),
    );
  }
  return names;
}
