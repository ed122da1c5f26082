import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { BuildError, type BuildErrorKind } from '../../src/buildkit/index.ts';
import { createRunScripts, type ScriptRun } from '../../src/builds/solve/scripts/run-scripts.ts';
import { createScriptLayers } from '../../src/builds/solve/scripts/script-layers.ts';
import { isRunnable, scriptProgram } from '../../src/builds/solve/scripts/script-recipe.ts';
import type { LayeredPackage } from '../../src/conda/index.ts';

const packageOf = (name: string, scripts: readonly string[], version = '1') =>
  ({
    package: { name, version, build: '0', buildNumber: 3, url: `https://c/${name}` },
    linkScripts: scripts,
  }) as unknown as LayeredPackage;
const one = packageOf('one', ['bin/.one-post-link.sh', 'info/post-link.sh']);

test('a step runs the scripts that run after packages are linked, and no others', () => {
  assert.equal(isRunnable(one), true);
  for (const scripts of [
    ['bin/.one-pre-link.sh', 'bin/.one-post-link.sh'],
    ['info/post-link.sh'],
    ['bin/.other-post-link.sh'],
  ]) {
    assert.equal(isRunnable(packageOf('one', scripts)), false, scripts.join());
  }
});

test('names and versions are texts for the program, whatever they have', () => {
  const odd = packageOf('odd', ['bin/.odd-post-link.sh'], "1'; touch /odd; '$(id)`id`");
  const program = scriptProgram([odd]).replace(/^run\(\) \{[\s\S]*?^\}$/m, 'run() { echo "$@"; }');
  const shown = execFileSync('/bin/sh', ['-c', program], { encoding: 'utf8' });
  assert.equal(shown, "odd 1'; touch /odd; '$(id)`id` 3 bin/.odd-post-link.sh\n");
});

test('link scripts run once for what they can read, and for each user', async () => {
  const kept = new Map<string, object>();
  const runs: ScriptRun[] = [];
  const reasons: string[] = [];
  const layers = createScriptLayers({
    keptSteps: {
      find: async (key: string) => kept.get(key),
      async keep(key: string, { isEmpty }: { isEmpty: boolean }) {
        const step = { layer: { gzipDigest: `sha256:${key}` }, isEmpty };
        kept.set(key, step);
        return step;
      },
    },
    async runScripts(run: ScriptRun) {
      runs.push(run);
      await Promise.resolve();
      return { isEmpty: run.program.includes('empty') };
    },
    labelOf: (name: string) => `label ${name}`,
    makeImage: async () => ({ root: {}, generated: new Map() }),
    verify: async () => ({}),
    offer: () => ({ name: 'image', [Symbol.dispose]() {} }),
  } as unknown as Parameters<typeof createScriptLayers>[0]);
  const callerOf = (owner: string) => ({
    ...{ owner, isTrusted: owner !== '', count: { last: 0 }, log: { write() {} } as never },
    rights: { limits: '', forBuilder: () => ({}) as never },
    signal: new AbortController().signal,
    beforeBuilder: async (found: readonly string[]) => void reasons.push(...found),
  });
  const environment = {
    platform: { os: 'linux', architecture: 'amd64' },
    access: {} as never,
    base: { digest: 'sha256:base' } as never,
    layers: [{ tarDigest: 'sha256:1' } as never],
    scripted: [one],
  };
  const link = (owner: string, more: object = {}) =>
    layers.link(callerOf(owner))({ ...environment, ...more });
  const [first, second] = await Promise.all([link('ann'), link('ann')]);
  assert.deepEqual(second, first);
  assert.equal(first?.holds, 'conda: changes of link scripts');
  assert.equal(runs.length, 1);
  assert.deepEqual(reasons, ['the link script of one']);
  assert.equal(await layers.isKept(callerOf('ann'), environment), true);
  assert.equal(await layers.isKept(callerOf('ben'), environment), false);
  let last = 1;
  for (const [owner, more] of [
    ['ben', {}],
    ['', {}],
    ['ann', { base: { digest: 'sha256:other' } }],
    ['ann', { layers: [{ tarDigest: 'sha256:2' }] }],
    ['ann', { platform: { os: 'linux', architecture: 'arm64' } }],
    ['ann', { scripted: [one, packageOf('two', ['bin/.two-post-link.sh'])] }],
  ] as const) {
    await link(owner, more);
    last += 1;
    assert.equal(runs.length, last, JSON.stringify([owner, more]));
  }
  const empty = packageOf('empty', ['bin/.empty-post-link.sh']);
  assert.equal(await link('ann', { scripted: [empty] }), undefined);
  assert.equal(await link('ann', { scripted: [empty] }), undefined);
  assert.equal(runs.length, last + 1);
});

test('link scripts run again with a network only if one of them has failed', async () => {
  const runsAfter = async (kind: BuildErrorKind, stop = new AbortController()) => {
    let runs = 0;
    const runScripts = createRunScripts({
      builders: {
        async use() {
          runs += 1;
          if (kind === 'cancelled') stop.abort();
          throw new BuildError(kind, 'broken', { exitCode: kind === 'exec' ? 1 : undefined });
        },
      },
    } as unknown as Parameters<typeof createRunScripts>[0]);
    const run = {
      ...{ root: imageWithoutLayers, program: '', domain: {}, signal: stop.signal },
      ...{ log: { write() {}, step() {} }, count: { last: 0 } },
    };
    const error = await runScripts(run as unknown as ScriptRun).catch(error => error);
    return [runs, error.constructor.name] as const;
  };
  assert.deepEqual(await runsAfter('exec'), [2, 'Fault']);
  assert.deepEqual(await runsAfter('unavailable'), [1, 'BuilderLost']);
  assert.deepEqual(await runsAfter('session'), [1, 'BuilderLost']);
  for (const kind of ['base', 'push', 'timeout', 'other', 'cancelled'] as const) {
    assert.deepEqual(await runsAfter(kind), [1, 'Fault'], kind);
  }
});

const imageWithoutLayers = {
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  bytes: Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config: {
        mediaType: 'application/vnd.oci.image.config.v1+json',
        digest: `sha256:${'0'.repeat(64)}`,
        size: 2,
      },
      layers: [],
    }),
  ),
};
