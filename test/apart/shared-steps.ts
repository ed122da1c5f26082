/** Steps without anything secret in their text: each user has results of their own, and anonymous callers theirs. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, suite, test } from 'node:test';
import { baseLayer } from '../corpus/base.ts';
import { bytesOf } from '../corpus/content.ts';
import { imageOf, path } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { eventually } from '../world/eventually.ts';
import { type ApartWorld, image, isCached } from './apart-world.ts';

const pairs = [
  ['ada', 'eve'],
  ['ada', 'limited'],
  ['ada', 'stranger'],
  ['stranger', 'ada'],
] as const;

export function sharedSteps(worldOf: () => ApartWorld): void {
  suite('steps that several callers have', { concurrency: 1 }, () => {
    let world: ApartWorld;

    before(() => {
      world = worldOf();
    });

    for (const [first, second] of pairs) {
      test(`a step of ${first} is not in the cache of ${second}`, async () => {
        const step = `cat /proc/sys/kernel/random/uuid > /drawn; : ${randomUUID()}`;
        const lines = [`FROM ${world.base}`, `RUN ${step}`];
        const drawn = image(await world.build(first, lines)).files.get('/drawn');
        const other = image(await world.build(second, lines));
        assert.equal(isCached(other, step), false, other.log);
        assert.notEqual(other.files.get('/drawn'), drawn);
        const again = image(await world.build(first, lines));
        assert.equal(again.files.get('/drawn'), drawn, 'control: it is in the own cache');
      });

      test(`a step that ${first} runs is not joined by ${second}`, async () => {
        const drawn = 'cat /proc/sys/kernel/random/uuid > /drawn';
        const lines = [
          `FROM ${world.base}`,
          `RUN echo begun; sleep 4; ${drawn}; : ${randomUUID()}`,
          'RUN true',
        ];
        const running = await world.start(first, lines);
        await eventually('the step runs', async () =>
          /^#\d+ [\d.]+ begun$/m.test(await world.logOf(running)),
        );
        const other = image(await world.build(second, lines));
        const one = image(await world.finished(running));
        assert.notEqual(other.files.get('/drawn'), one.files.get('/drawn'));
      });

      test(`the number of a build of ${first} in /etc/hosts is not in a build of ${second}`, async () => {
        const lines = [`FROM ${world.base}`, `RUN cat /etc/hosts > /seen; : ${randomUUID()}`];
        const [number = ''] =
          /^0\.\d+\.\d+\.\d+/m.exec(
            image(await world.build(first, lines)).files.get('/seen') ?? '',
          ) ?? [];
        assert.notEqual(number, '', 'control: the step sees the number');
        const other = image(await world.build(second, lines));
        assert.ok(!other.all.includes(number), other.all);
      });

      test(`a cache mount of ${first} is empty for ${second}`, async () => {
        const [secret, id] = [randomUUID(), randomUUID()];
        const mount = `RUN --mount=type=cache,id=${id},target=/kept`;
        const put = `FROM ${world.base}\n${mount} echo ${secret} > /kept/file; cat /kept/file > /put\n`;
        assert.equal(image(await world.build(first, put)).files.get('/put'), `${secret}\n`);
        const take = `FROM ${world.base}\n${mount} ls /kept > /found; cat /kept/* || true; : ${id}\n`;
        const other = image(await world.build(second, take));
        assert.ok(!other.all.includes(secret), other.all);
        assert.equal(other.files.get('/found'), '');
        if (first === 'stranger') return;
        const own = image(await world.build(first, take.replace('ls', 'ls -A')));
        assert.equal(own.files.get('/found'), 'file\n', 'control: the setting shares own mounts');
        // An image made from them is not another caller's, not even for the same recipe.
        const same = {
          labels: { same: randomUUID() },
          buildRepository: `${world.open.host}/of-both`,
        };
        const made = image(await world.build(first, take, same));
        assert.equal(made.files.get('/found'), 'file\n');
        const others = image(await world.build(second, take, same));
        assert.equal(others.files.get('/found'), '');
      });
    }

    test('a token for certain repositories builds from these, and pushes to these only', async () => {
      const secret = randomUUID();
      const held = await layerOf([{ name: 'held', content: secret }]);
      const layers = [await baseLayer(), held];
      const triggering = (trigger: string) =>
        imageOf({ layers: layers.slice(0, 1), run: { Env: [path], OnBuild: [trigger] } });
      const { base } = world;
      const other = await world.push(world.open, 'other', imageOf({ layers }));
      const hidden = await world.push(world.closed, 'hidden', imageOf({ layers }));
      const own = (dockerfile: string, fields = {}) => world.build('limited', dockerfile, fields);
      image(await own(`FROM ${base}\nRUN true\n`));
      for (const name of [other, hidden]) {
        image(await world.build('ada', `FROM ${name}\nRUN cat /held\n`));
        // In the repository that the token may use.
        const onBuild = triggering(`COPY --from=${name} /held /taken`);
        const trigger = await world.push(world.open, 'base', onBuild);
        const copy = `FROM ${base}\nCOPY --from=stage /held /taken\n`;
        for (const [dockerfile, fields] of [
          [`FROM ${name}\nRUN cat /held\n`, {}],
          [`FROM ${base}\nCOPY --from=${name} /held /taken\n`, {}],
          [`FROM ${base}\nRUN --mount=type=bind,from=${name},target=/image cat /image/held\n`, {}],
          [copy, { namedContexts: { stage: name } }],
          [`FROM ${trigger}\nRUN cat /taken\n`, {}],
          [`FROM ${base}\nRUN true\n`, { buildRepository: name.replace(/@.*/, '') }],
          [`FROM ${base}\nRUN true\n`, { cacheRepository: name.replace(/@.*/, '') }],
        ] as const) {
          const refused = await own(dockerfile, fields);
          assert.equal(refused.succeeded, false, `${dockerfile}${JSON.stringify(fields)}`);
          assert.match(refused.all, /limited to certain repositories/);
          assert.ok(!refused.all.includes(secret), refused.all);
        }
      }
    });

    test('the files that callers sent under equal names, sizes and dates stay theirs', async () => {
      const context = async (content: string) => {
        const { content: packed } = await layerOf([{ name: 'file', content }]);
        return { location: `data:${bytesOf(packed).toString('base64')}` };
      };
      const lines = [`FROM ${world.base}`, 'COPY file /copy'];
      const [one, two, three] = [randomUUID(), randomUUID(), randomUUID()];
      for (const [person, text] of [
        ['ada', one],
        ['eve', two],
        ['stranger', three],
        ['ada', randomUUID()],
      ] as const) {
        const made = await world.build(person, lines, { buildContext: await context(text) });
        assert.equal(image(made).files.get('/copy'), text, person);
      }
    });
  });
}
