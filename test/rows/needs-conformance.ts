/** What live requests need, found without reading all of them, compared with a walk of all. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { hashToken, nameIdOf } from '../../src/request/tokens/container-token.ts';
import { createTokenRegistry } from '../../src/request/tokens/token-registry.ts';
import type { Rows } from '../../src/storage/rows/rows.ts';
import { Random } from '../fuzz/random.ts';
import { neededWalks } from '../world/needed-walks.ts';

const hourMs = 3_600_000;
const steps = 250;
const seed = Number(process.env.SEED ?? randomInt(1_000_000));
const unlimited = { async admitRequest() {} };

type Issued = Parameters<ReturnType<typeof createTokenRegistry>['issue']>[0];
type Body = ReturnType<Issued>;

export function testNeeds(withRows: (work: (rows: Rows) => Promise<void>) => Promise<void>): void {
  // SEED repeats a history.
  test('a sweep marks what live requests need, and nothing else, in any history', () =>
    withRows(async rows => {
      const { requests, runs } = rows;
      const clock = { now: Date.now() };
      const lives = { maxLifeMs: 9 * hourMs, runLeaseMs: hourMs, now: () => clock.now };
      const tokens = createTokenRegistry(requests, 3 * hourMs, unlimited, lives);
      const history: string[] = [];
      const known: ReturnType<typeof nameIdOf>[] = [];
      const random = new Random(seed);
      const pick = <T>(of: readonly T[]) => random.pick(of);
      const key = () => Buffer.from(pick(['one', 'two', 'three']));
      const bodyOf = (): Body => {
        const kind = random.int(8);
        const digest = (what: string) => digestOf(Buffer.from(`${what} ${kind}`));
        const image = (what: string) => ({
          digest: digest(what),
          mediaType: mediaTypes.ociManifest,
        });
        const layer = (what: string) => ({ gzipDigest: digest(what) });
        return {
          fixed: pick([undefined, { served: image('served'), base: image('base') }]),
          change: { layers: pick([[], [layer('one')], [layer('one'), layer('two')]]) },
          run: pick([undefined, { key: key().toString('hex'), platform: 'a.org', id: 'run' }]),
          caller: {},
          targetImage: '',
        } as unknown as Body;
      };
      const works: Record<string, () => Promise<unknown>> = {
        async request() {
          const { token } = await tokens.issue(bodyOf);
          known.push(nameIdOf(hashToken(token)));
        },
        again: () => works.request?.() as Promise<unknown>,
        revoke: () => tokens.revokeById(pick(known)),
        'revoke a late one': () => tokens.revokeById(pick(known.slice(-5))),
        extend: () => tokens.extendById(pick(known), random.int(5 * hourMs)),
        renew: () => runs.renew(key(), clock.now + hourMs, clock.now),
        end: () => runs.end(key(), clock.now),
        async wait() {
          clock.now += random.int(hourMs);
        },
        async 'wait for long'() {
          clock.now += random.once(4) ? 80 * hourMs : random.int(4 * hourMs);
        },
        purge: () => tokens.purge(),
        async 'purge of runs'() {
          await runs.purge(clock.now - hourMs, clock.now + 10 * hourMs);
        },
        async 'a wrong clock'() {
          clock.now += 10_000 * hourMs;
          await works.request?.();
          clock.now -= 10_000 * hourMs;
        },
      };
      await works.request?.();
      for (let step = 0; step < steps; step += 1) {
        const name = pick(Object.keys(works));
        history.push(name);
        await works[name]?.();
        const { swept, needed } = await neededWalks(rows, clock.now);
        assert.deepEqual(swept, needed, `seed ${seed}: ${history.join(', ')}`);
      }
    }));

  test('a page of needs has each of them once; of many requests of ended runs one counts as live', () =>
    withRows(async rows => {
      const { requests, runs } = rows;
      const run = { key: Buffer.from('run'), platform: 'a.org', leaseUntil: 50, dueAt: 50 };
      const insert = (token: string, needs: string, ofRun?: typeof run) =>
        requests.insert(Buffer.from(token), {
          ...{ createdAt: 1, expiresAt: 100, body: JSON.stringify({ token }), run: ofRun },
          needs: Buffer.from(needs),
        });
      const found = async (after: string, limit: number) => {
        const page = await requests.needsAfter(Buffer.from(after), 60, limit);
        return page.map(({ needs, body }) => [String(needs), body !== null]);
      };
      const count = (length: number) => Array.from({ length }, (_, at) => at);
      await insert('nothing', '');
      await Promise.all(count(64).map(at => insert(`few ${at}`, 'few', run)));
      await Promise.all(count(65).map(at => insert(`many ${at}`, 'many', run)));
      await Promise.all(['a', 'b', 'c'].map(one => insert(one, one)));
      await requests.revoke(Buffer.from('b'), 5);
      const live = (...names: string[]) => names.map(name => [name, true]);
      assert.deepEqual(await found('', 10), live('a', 'c', 'few', 'many'));
      await runs.end(run.key, 55);
      assert.deepEqual(await found('', 2), live('a', 'c'));
      assert.deepEqual(await found('c', 10), [['few', false], ...live('many')]);
    }));
}
