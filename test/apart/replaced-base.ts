/** A public base image: nobody replaces its files for others with an image that claims to have its layers. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, suite, test } from 'node:test';
import { baseLayer } from '../corpus/base.ts';
import { imageOf } from '../corpus/image.ts';
import { type Layer, layerOf } from '../corpus/layer.ts';
import { type ApartWorld, image } from './apart-world.ts';

const note = (content: string) => layerOf([{ name: 'note', content }]);

/** The `diff_id` of one layer over the bytes of another. */
const disguised = (truth: Layer, lie: Layer): Layer => ({ ...truth, content: lie.content });

/** How an attacker makes the builder unpack an image. */
const ways: Readonly<Record<string, (name: string, base: string) => string>> = {
  FROM: name => `FROM ${name}\nRUN cat /note\n`,
  'COPY --from': (name, base) => `FROM ${base}\nCOPY --from=${name} /note /taken\n`,
  'RUN --mount': (name, base) =>
    `FROM ${base}\nRUN --mount=type=bind,from=${name},target=/image cat /image/note\n`,
  'a named context': (_, base) => `FROM ${base}\nCOPY --from=stage /note /taken\n`,
};

export function replacedBase(worldOf: () => ApartWorld): void {
  suite('replaced base images', { concurrency: 1 }, () => {
    let world: ApartWorld;

    before(() => {
      world = worldOf();
    });

    // The same caller too: who builds from an image of others does not vouch for what they claim.
    for (const attacker of ['eve', 'stranger', 'ada'] as const) {
      // Eve shares a builder with nobody who builds afterwards.
      const tried = Object.entries(ways).slice(0, attacker === 'eve' ? 1 : undefined);
      for (const [way, dockerfile] of tried) {
        test(`${attacker} with ${way} of a lie, then Ada and others with the true image`, async () => {
          const [truth, lie] = [`true ${randomUUID()}`, `false ${randomUUID()}`];
          const [base, layer, false_] = [await baseLayer(), await note(truth), await note(lie)];
          const bait = imageOf({ layers: [base, disguised(layer, false_)] });
          const evil = await world.push(world.open, `evil-${randomUUID()}`, bait);
          const fields = way === 'a named context' ? { namedContexts: { stage: evil } } : {};
          await world.build(attacker, dockerfile(evil, world.base), fields);

          const good = imageOf({ layers: [base, layer] });
          const name = await world.push(world.open, `good-${randomUUID()}`, good);
          for (const person of ['ada', 'stranger'] as const) {
            const made = image(await world.build(person, `FROM ${name}\nRUN cat /note > /seen\n`));
            assert.equal(made.files.get('/seen'), truth, `${person}: ${made.log}`);
            assert.equal(made.files.get('/note'), truth, person);
            assert.deepEqual(made.layers.slice(0, 2), [base.content.digest, layer.content.digest]);
          }
        });
      }
    }

    test('the first layer of a base is replaced with one that has more below it', async () => {
      const [truth, lie] = [`true ${randomUUID()}`, `false ${randomUUID()}`];
      const [base, layer, false_] = [await baseLayer(), await note(truth), await note(lie)];
      const top = await layerOf([{ name: 'top', content: truth }]);
      const bait = imageOf({ layers: [base, disguised(layer, false_), top] });
      const evil = await world.push(world.open, `evil-${randomUUID()}`, bait);
      await world.build('stranger', `FROM ${evil}\nRUN cat /note\n`);
      const good = imageOf({ layers: [base, layer, top] });
      const name = await world.push(world.open, `good-${randomUUID()}`, good);
      const made = image(await world.build('ada', `FROM ${name}\nRUN cat /note > /seen\n`));
      assert.equal(made.files.get('/seen'), truth);
    });
  });
}
