import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import {
  changeConfig,
  envName,
  type ImageChange,
  type InjectedLayer,
  mergeEnv,
} from '../../src/images/augment/image-config.ts';
import type { Digest } from '../../src/oci/digest.ts';

const entryChainVariables = ['SLUICE_ENTRY_CHAIN', 'WAVE_ENTRY_CHAIN'];
const isOfChain = (entry: string) => entryChainVariables.includes(envName(entry));
const names = fc.constantFrom('A', 'B', 'PATH', 'a', '__proto__', 'X_1');
const values = fc.oneof(fc.string(), fc.constantFrom('', '=', 'a=b=c', 'é "quoted"\n'));
const entries = fc.tuple(names, values).map(([name, value]) => `${name}=${value}`);
const environments = fc.array(entries, { maxLength: 6 });
const words = fc.array(fc.string(), { maxLength: 3 });
const digests = fc.stringMatching(/^[0-9a-f]{64}$/).map(text => `sha256:${text}` as Digest);
const layerLists: fc.Arbitrary<InjectedLayer[]> = fc.array(
  fc.record({ gzipDigest: digests, gzipSize: fc.nat(), tarDigest: digests }),
  { maxLength: 3 },
);
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const changes = fc
  .record({
    entrypoint: optional(words),
    cmd: optional(words),
    env: optional(environments),
    workingDir: optional(fc.string()),
  })
  .map(
    change =>
      Object.fromEntries(
        Object.entries(change).filter(([, value]) => value !== undefined),
      ) as ImageChange,
  );

interface Config {
  config?: Record<string, unknown> | null;
  rootfs?: { type: string; diff_ids: string[] };
  history?: { empty_layer?: boolean }[] | null;
  [member: string]: unknown;
}

const runtimes = fc.record(
  {
    Env: fc.oneof(environments, fc.constant(null)),
    Entrypoint: fc.oneof(words, fc.constant(null)),
    Cmd: fc.oneof(words, fc.constant(null)),
    WorkingDir: fc.string(),
    User: fc.string(),
    Labels: fc.dictionary(fc.string(), fc.string()),
  },
  { requiredKeys: [] },
);
const bases: fc.Arbitrary<Config> = fc.record(
  {
    architecture: fc.constantFrom('amd64', 'arm64'),
    os: fc.constant('linux'),
    'org.example.unknown': fc.oneof(fc.string(), fc.boolean(), fc.constant(null)),
    config: fc.oneof(runtimes, fc.constant(null)),
    rootfs: fc.record({
      type: fc.constant('layers'),
      diff_ids: fc.array(digests, { maxLength: 3 }),
    }),
    history: fc.oneof(
      fc.array(fc.oneof(fc.constant({ empty_layer: true }), fc.constant({})), { maxLength: 4 }),
      fc.constant(null),
    ),
  },
  { requiredKeys: ['architecture', 'os'] },
);

function changed(base: Config, change: ImageChange, layers: InjectedLayer[] = [], count = 0) {
  const bytes = changeConfig(Buffer.from(JSON.stringify(base)), change, layers, count);
  return JSON.parse(bytes.toString('utf8')) as Config;
}

const environmentOf = (env: readonly string[]) =>
  new Map(env.map(entry => [envName(entry), entry]));

test('merged environment: each name occurs once, given values win, base order is kept, new names come last', () => {
  fc.assert(
    fc.property(environments, environments, (base, given) => {
      const merged = mergeEnv(base, given);
      const mergedNames = merged.map(envName);
      assert.deepEqual(new Set(mergedNames).size, merged.length);
      const expected = new Map([...environmentOf(base), ...environmentOf(given)]);
      assert.deepEqual(environmentOf(merged), expected);
      assert.deepEqual(mergedNames, [...new Set([...base, ...given].map(envName))]);
    }),
  );
});

test('merging the same values again changes nothing', () => {
  fc.assert(
    fc.property(environments, environments, (base, given) => {
      const once = mergeEnv(base, given);
      assert.deepEqual(mergeEnv(once, given), once);
    }),
  );
});

test('given members replace those of the base; all other members keep value and position', () => {
  fc.assert(
    fc.property(bases, changes, (made, change) => {
      // As it comes out of JSON: fast-check makes objects without a prototype.
      const base = JSON.parse(JSON.stringify(made)) as Config;
      const after = changed(base, change);
      const before = base.config ?? {};
      const runtime = after.config ?? {};
      assert.deepEqual(runtime.Cmd, change.cmd ?? before.Cmd);
      assert.deepEqual(runtime.Entrypoint, change.entrypoint ?? before.Entrypoint);
      assert.deepEqual(runtime.WorkingDir, change.workingDir ?? before.WorkingDir);
      const { config: _config, ...rest } = after;
      const { config: _base, ...baseRest } = base;
      assert.deepEqual(rest, baseRest);
      const kept = Object.keys(after).filter(name => name in base);
      assert.deepEqual(kept, Object.keys(base));
      assert.deepEqual(runtime.User, before.User);
      assert.deepEqual(runtime.Labels, before.Labels);
    }),
  );
});

test('the entry chain is the replaced entrypoint, and exists only if there was one', () => {
  fc.assert(
    fc.property(bases, changes, (base, change) => {
      const former = (base.config?.Entrypoint ?? []) as string[];
      fc.pre(!change.env?.some(isOfChain));
      const env = (changed(base, change).config?.Env ?? []) as string[];
      const chain = env.filter(isOfChain);
      const isReplaced =
        change.entrypoint !== undefined && !isDeepStrictEqual([...former], change.entrypoint);
      const isChained = isReplaced && former.length > 0;
      const list = JSON.stringify(former);
      const expected = [
        `SLUICE_ENTRY_CHAIN=${list}`,
        `WAVE_ENTRY_CHAIN=${former.length === 1 ? former[0] : list}`,
      ];
      assert.deepEqual(chain, isChained ? expected : []);
    }),
  );
});

test('layers are appended with their diff IDs, and the history matches them', () => {
  fc.assert(
    fc.property(bases, layerLists, fc.nat(4), (base, layers, count) => {
      fc.pre(layers.length > 0);
      const after = changed(base, {}, layers, count);
      assert.deepEqual(after.rootfs?.diff_ids, [
        ...(base.rootfs?.diff_ids ?? []),
        ...layers.map(layer => layer.tarDigest),
      ]);
      const described = (history: Config['history']) =>
        (history ?? []).filter(entry => entry.empty_layer !== true).length;
      const before = Math.max(described(base.history), count);
      assert.equal(described(after.history), before + layers.length);
    }),
  );
});

test('the same base and change give the same bytes', () => {
  fc.assert(
    fc.property(bases, changes, layerLists, (base, change, layers) => {
      const bytes = Buffer.from(JSON.stringify(base));
      const one = changeConfig(bytes, change, layers, 1);
      assert.ok(one.equals(changeConfig(Buffer.from(bytes), { ...change }, [...layers], 1)));
    }),
  );
});
