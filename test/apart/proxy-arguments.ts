/** Arguments that BuildKit leaves out of the key of a step: what a step has made with those of one build is not in another. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, suite, test } from 'node:test';
import { type ApartWorld, image } from './apart-world.ts';

/**
 * Names of arguments, and who tries to reach others with them. test/builds/domains.test.ts has all names: each such build
 * is alone, and starts a builder.
 */
const names = [
  ['HTTP_PROXY', 'eve'],
  ['https_proxy', 'stranger'],
  ['No_Proxy', 'ada'],
] as const;

export function proxyArguments(worldOf: () => ApartWorld): void {
  suite('proxies in build arguments', { concurrency: 1 }, () => {
    let world: ApartWorld;

    before(() => {
      world = worldOf();
    });

    /** A step whose result depends on the proxies, as that of each download does. */
    const step = () => [`FROM ${world.base}`, `RUN env > /seen; : ${randomUUID()}`];

    for (const [name, attacker] of names) {
      test(`what a step made with ${name} is not in a build of others`, async () => {
        const poisoned: string[] = [];
        const [lines, proxy] = [step(), `http://${randomUUID()}.invalid:3128`];
        const made = await world.build(attacker, lines, { buildArgs: { [name]: proxy } });
        const seen = image(made).files.get('/seen') ?? '';
        assert.ok(seen.includes(proxy), `control: the step sees its proxy: ${seen}`);
        const without = image(await world.build('ada', lines));
        if (without.all.includes(proxy)) poisoned.push(`by ${attacker}, without a proxy`);
        const other = `http://${randomUUID()}.invalid:3128`;
        const own = image(await world.build('ada', lines, { buildArgs: { [name]: other } }));
        if (!own.files.get('/seen')?.includes(other)) poisoned.push(`by ${attacker}, with another`);
        assert.deepEqual(poisoned, []);
      });
    }

    test('the password of a proxy is not in a build of others', async () => {
      const [lines, password] = [step(), randomUUID()];
      const buildArgs = { HTTPS_PROXY: `http://ada:${password}@proxy.invalid:3128` };
      const made = image(await world.build('ada', lines, { buildArgs }));
      assert.ok(made.files.get('/seen')?.includes(password), 'control: the step sees it');
      for (const person of ['eve', 'stranger'] as const) {
        const { all } = image(await world.build(person, lines));
        assert.ok(!all.includes(password), `${person}: ${all}`);
      }
    });
  });
}
