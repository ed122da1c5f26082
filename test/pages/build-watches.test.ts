/** The streams of events about builds, without a server. */
import assert from 'node:assert/strict';
import { afterEach, suite, test } from 'node:test';
import type { LogLine } from '../../src/builds/logs/log-lines.ts';
import { type BuildWatchesDeps, createBuildWatches } from '../../src/pages/builds/build-watches.ts';

const origin = { kind: 'image', repository: 'host/from', digest: 'sha256:0' };
const row = { plan: JSON.stringify({ target: 'host/builds:1', origin }), target: 'host/builds:1' };

suite('streams of events about builds', () => {
  let isStopping = false;
  const opened = new Set<{ destroy(): void }>();
  afterEach(() => {
    isStopping = true;
    for (const stream of opened) stream.destroy();
    opened.clear();
  });

  function streams(read: (id: string) => void, lines: readonly LogLine[] = []) {
    isStopping = false;
    const log = {
      ...{ total: lines.length, steps: [], hasAllOfSteps: true, countOf: () => 0 },
      read: async () => lines,
    };
    const { watch } = createBuildWatches({
      isStopping: () => isStopping,
      publicUrl: new URL('http://host/'),
      urlOf: (registry: string) => `http://${registry}`,
      builds: {
        async get(id: string) {
          read(id);
          return { ...row, id, createdAt: 0, startedAt: 1, finishedAt: null, reason: null };
        },
        documents: async () => [],
      },
      logs: { steps: async () => undefined, lines: async () => log },
    } as unknown as BuildWatchesDeps);
    return (id: string) => {
      const stream = watch(id);
      opened.add(stream);
      return stream;
    };
  }

  test('hundreds of watched builds are read less often: they take no more of the server than some do', async () => {
    const counts = new Map<string, number>();
    const again = Promise.withResolvers<void>();
    const watch = streams(id => {
      counts.set(id, (counts.get(id) ?? 0) + 1);
      if (counts.size === 150 && counts.values().every(count => count >= 2)) again.resolve();
    });
    const began = performance.now();
    for (let at = 0; at < 150; at += 1) watch(`build_${at}`).resume();
    await again.promise;
    const ms = performance.now() - began;
    assert.ok(ms >= 150 * 19, `each was read again after ${ms} ms`);
  });

  test('a connection gets a long event in pieces, since it keeps a copy of each', async () => {
    const text = '"'.repeat(3000);
    const lines = Array.from({ length: 300 }, (_, at) => {
      return { number: at + 1, text, coloured: text, isCut: false };
    });
    const stream = streams(() => {}, lines)('build_1');
    let all = '';
    let longest = 0;
    const whole = Promise.withResolvers<void>();
    // As a connection reads it.
    stream.on('data', (piece: Buffer) => {
      longest = Math.max(longest, piece.length);
      all += piece;
      if (/event: lines\ndata: .*\n\n/.test(all)) whole.resolve();
    });
    await whole.promise;
    assert.ok(longest <= 65_536, `${longest} bytes`);
    assert.ok(all.length > 2 * 65_536, `${all.length} characters`);
  });
});
