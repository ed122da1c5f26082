/** What a step has made of a secret or an SSH key: another build, of whoever, does not get it. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import { baseLayer } from '../corpus/base.ts';
import { imageOf } from '../corpus/image.ts';
import { eventually } from '../world/eventually.ts';
import { makeSshKey } from '../world/ssh-keys.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { type ApartWorld, type Built, image, openApartWorld, requireCache } from './apart-world.ts';

/** A step with a secret, in the spelling of its owner, and in one that another caller may choose. */
interface Spelling {
  readonly what: string;
  /** Lines after `FROM`. `take` writes the secret, or `none`, to `/out`. */
  readonly victim: (take: string) => string;
  readonly attacker: (take: string) => string;
  /** Before `FROM`. */
  readonly head?: string;
  readonly fields?: object;
}

const mount = 'type=secret,id=tok,target=/tok';
const agent = 'type=ssh,target=/agent';
const plain = (take: string) => `RUN --mount=${mount} ${take}`;

const spellings: readonly Spelling[] = [
  { what: 'the same text', victim: plain, attacker: plain },
  {
    what: 'a continuation inside the word --mount',
    victim: plain,
    attacker: take => `RUN --mou\\\nnt=${mount} ${take}`,
  },
  {
    what: 'a continuation inside the word secret',
    victim: plain,
    attacker: take => `RUN --mount=type=sec\\\nret,id=tok,target=/tok ${take}`,
  },
  {
    what: 'another escape character',
    victim: plain,
    head: '# escape=`\n',
    attacker: take => `RUN --mou\`\nnt=${mount} ${take}`,
  },
  {
    what: 'a heredoc',
    victim: take => `RUN --mount=${mount} <<END\n${take}\nEND`,
    attacker: take => `RUN --mou\\\nnt=${mount} <<END\n${take}\nEND`,
  },
  {
    what: 'a variable for the type',
    victim: take => `ARG kind\nRUN --mount=type=\${kind},id=tok,target=/tok ${take}`,
    attacker: take => `ARG kind\nRUN --mount=typ\\\ne=\${kind},id=tok,target=/tok ${take}`,
    fields: { buildArgs: { kind: 'secret' } },
  },
  {
    what: 'a variable of the environment',
    victim: take => `RUN --mount=type=secret,id=tok,target=/tok,env=TOK ${take}`,
    attacker: take => `RUN --mou\\\nnt=type=secret,id=tok,target=/tok,env=TOK ${take}`,
  },
];

/** Each is new, so that no test meets the steps of another. */
const taking = (source = 'cat /tok 2> /dev/null') =>
  `{ ${source} || echo none; } > /out; : ${randomUUID()}`;
const base64 = (text: string) => Buffer.from(text).toString('base64');
const keyOf = ({ buildId = '' }: Built) => buildId.split('_')[0];
const owners = ['ada', 'stranger'] as const;
const attackers = ['eve', 'stranger', 'ada'] as const;

suite('steps with secrets', { concurrency: 1 }, () => {
  let world: ApartWorld;

  before(async () => {
    world = await openApartWorld();
  });
  after(() => world?.[Symbol.asyncDispose]());

  /**
   * Returns who sees the text in the log or the files of a build of the Dockerfile without secrets: users, anonymous
   * callers, and Ada in another build.
   */
  const finders = async (secret: string, dockerfile: string, fields = {}) => {
    const found: string[] = [];
    for (const person of attackers) {
      const { all } = await world.build(person, dockerfile, fields);
      if (all.includes(secret)) found.push(person);
    }
    return found;
  };

  test('control: each caller has a cache', () => requireCache(world, 'ada', 'eve', 'stranger'));

  for (const { what, victim, attacker, head = '', fields = {} } of spellings) {
    for (const owner of what === 'a heredoc' ? owners : owners.slice(0, 1)) {
      test(`the secret of ${owner} is not in a build without it: ${what}`, async () => {
        const secret = randomUUID();
        const take = taking();
        const from = `FROM ${world.base}\n`;
        const made = await world.build(owner, `${from}${victim(take)}\n`, {
          ...fields,
          secrets: { tok: base64(secret) },
        });
        assert.equal(image(made).files.get('/out'), secret, 'control: the step writes the secret');
        const text = `${head}${from}${attacker(take)}\n`;
        assert.deepEqual(await finders(secret, text, fields), [], 'have the secret');
        const own = { ...fields, secrets: { tok: base64('mine') } };
        assert.equal(image(await world.build('eve', text, own)).files.get('/out'), 'mine');
      });
    }
  }

  test('the secret of a step that a trigger of the base image runs is not in a build without it', async () => {
    const [secret, take] = [randomUUID(), taking()];
    const run = { OnBuild: [`RUN --mount=${mount} ${take}`] };
    const bait = imageOf({ layers: [await baseLayer()], run });
    const from = `FROM ${await world.push(world.open, 'trigger', bait)}\n`;
    const made = await world.build('ada', from, { secrets: { tok: base64(secret) } });
    assert.equal(image(made).files.get('/out'), secret, 'control: the step writes the secret');
    const found = await finders(secret, from);
    assert.deepEqual(found, [], 'have the secret');
  });

  for (const { what, attacker } of [
    { what: 'the same text', attacker: (take: string) => `RUN --mount=${agent} ${take}` },
    { what: 'a continuation', attacker: (take: string) => `RUN --mou\\\nnt=${agent} ${take}` },
    {
      what: 'a continuation inside the word ssh',
      attacker: (take: string) => `RUN --mount=type=ss\\\nh,target=/agent ${take}`,
    },
  ]) {
    test(`what a step has made with an SSH key is not in a build without the key: ${what}`, async () => {
      await using place = await makeTempDir('apart');
      const { privateKey } = makeSshKey(place.join('key'), ['-t', 'ed25519']);
      // Stands for what the step fetches with the key.
      const take = taking('test -S /agent && cat /proc/sys/kernel/random/uuid');
      const from = `FROM ${world.base}\n`;
      const ssh = { default: [base64(privateKey)] };
      const made = await world.build('ada', `${from}RUN --mount=${agent} ${take}\n`, { ssh });
      const fetched = image(made).files.get('/out')?.trim() ?? '';
      assert.match(fetched, /^[0-9a-f-]{36}$/, 'control: the step uses the key');
      const found = await finders(fetched, `${from}${attacker(take)}\n`);
      assert.deepEqual(found, [], 'have what the key fetched');
    });
  }

  for (const other of attackers) {
    test(`simultaneous builds of ada and ${other} with the same step see their own secrets`, async () => {
      const [secret, take] = [randomUUID(), taking()];
      // The second joins the step while the first runs it.
      const lines = [`FROM ${world.base}`, `RUN --mount=${mount} echo begun; sleep 4; ${take}`];
      const first = await world.start('ada', lines, { secrets: { tok: base64(secret) } });
      await eventually('the step runs', async () =>
        /^#\d+ [\d.]+ begun$/m.test(await world.logOf(first)),
      );
      const second = await world.build(other, lines, { secrets: { tok: base64('mine') } });
      assert.equal(image(await world.finished(first)).files.get('/out'), secret);
      assert.ok(!second.all.includes(secret), `${other} has the secret:\n${second.all}`);
      assert.equal(image(second).files.get('/out'), 'mine');
    });
  }

  test('a secret that a step has put into a cache mount is not in a build of the same recipe with another', async () => {
    const secret = randomUUID();
    const lines = [
      `FROM ${world.base}`,
      `RUN --mount=type=cache,target=/kept --mount=${mount} cat /tok >> /kept/tok; cat /kept/tok > /out; : ${randomUUID()}`,
    ];
    // Both name the same recipe, also by its key.
    const fields = { buildRepository: `${world.open.host}/mounts`, labels: {} };
    const made = await world.build('ada', lines, { ...fields, secrets: { tok: base64(secret) } });
    assert.equal(image(made).files.get('/out'), secret, 'control: the step writes the secret');
    for (const person of attackers) {
      const again = await world.build(person, lines, {
        ...fields,
        noCache: true,
        secrets: { tok: base64('mine') },
      });
      assert.equal(keyOf(again), keyOf(made), 'control: the recipe is the same');
      assert.ok(!again.all.includes(secret), `${person} has the secret:\n${again.all}`);
    }
  });
});
