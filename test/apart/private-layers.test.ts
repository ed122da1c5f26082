/** Layers of a private image: whoever knows their digests does not get them from the builder. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import { baseLayer } from '../corpus/base.ts';
import { type Image, imageOf } from '../corpus/image.ts';
import { type Layer, layerOf } from '../corpus/layer.ts';
import { type ApartWorld, image, openApartWorld, requireCache } from './apart-world.ts';

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

suite('layers of private images', { concurrency: 1 }, () => {
  let world: ApartWorld;

  before(async () => {
    world = await openApartWorld();
  });
  after(() => world?.[Symbol.asyncDispose]());

  test('control: each caller has a cache', () => requireCache(world, 'ada', 'eve', 'stranger'));

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
});
