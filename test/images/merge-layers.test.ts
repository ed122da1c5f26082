/** The merge of many layers, held against a model that applies them one after the other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergeLayers } from '../../src/images/listing/comparing/merge-layers.ts';
import { keySeparator, type ListedEntry } from '../../src/images/listing/listed-entry.ts';
import { boundMs } from '../world/longest-block.ts';

type Event = readonly [key: string, layer: number, now: string, before: string];

const usual = {
  ...{ mode: 0o644, uid: 0, gid: 0, size: 1, link: '', hash: '', twice: 0 },
  ...{ hides: false, isImplicit: false, hasCapabilities: false },
};

/** Applies layers as the OCI image specification describes it. */
function applied(layers: readonly (readonly ListedEntry[])[]): Event[] {
  const events: Event[] = [];
  const present = new Map<string, number>();
  for (const [layer, entries] of layers.entries()) {
    const own = new Map(entries.map(entry => [entry.key, entry]));
    const removes = (key: string) => {
      if (own.get(key)?.kind === 'whiteout') return true;
      const names = key.split(keySeparator);
      return names.slice(0, -1).some((_, at) => {
        const above = own.get(names.slice(0, at + 1).join(keySeparator));
        return above !== undefined && (above.kind !== 'directory' || above.hides);
      });
    };
    for (const [key, at] of [...present]) {
      const entry = own.get(key);
      if (entry && entry.kind !== 'whiteout' && !entry.isImplicit) continue;
      if (!removes(key)) continue;
      events.push([key, layer, '', `${at}`]);
      present.delete(key);
    }
    for (const { key, kind, isImplicit } of entries) {
      if (kind === 'whiteout' || isImplicit) continue;
      events.push([key, layer, kind, `${present.get(key) ?? ''}`]);
      present.set(key, layer);
    }
  }
  return events.sort(([one, a], [other, b]) => (one < other ? -1 : one > other ? 1 : a - b));
}

function merged(layers: readonly (readonly ListedEntry[])[]): Event[] {
  const events: Event[] = [];
  for (const { key, layer, entry, before } of mergeLayers(layers.map(one => one.values()))) {
    // A whiteout of nothing changes nothing.
    if (!entry && !before) continue;
    events.push([key, layer, entry?.kind ?? '', `${before?.layer ?? ''}`]);
  }
  return events;
}

test('random layers do what they do one after the other', () => {
  let seed = 7;
  const pick = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * below);
  };
  const keys = ['a', 'a/a', 'a/a/a', 'a/b', 'a/b/c', 'a-', 'b', 'b/a', 'b/a/a'].map(key =>
    key.replaceAll('/', keySeparator),
  );
  for (let round = 0; round < 3000; round += 1) {
    const layers = Array.from({ length: 1 + pick(6) }, () =>
      keys
        .filter(() => pick(3) === 0)
        .map((key): ListedEntry => {
          const kind = (['file', 'directory', 'directory', 'whiteout'] as const)[pick(4)] ?? 'file';
          const hides = kind === 'directory' && pick(3) === 0;
          return { ...usual, key, kind, hides, isImplicit: hides && pick(2) === 0 };
        })
        .sort((one, other) => (one.key < other.key ? -1 : 1)),
    );
    assert.deepEqual(merged(layers), applied(layers), `round ${round}`);
  }
});

test('the cost of an entry grows little with the number of layers', t => {
  const layersOf = (count: number, each: number) =>
    Array.from({ length: count }, (_, layer) =>
      Array.from({ length: each }, (_, at): ListedEntry => {
        const key = `d${keySeparator}${String(at * count + layer).padStart(8, '0')}`;
        return { ...usual, key, kind: 'file' };
      }),
    );
  const msOf = (layers: readonly (readonly ListedEntry[])[]) => {
    const before = process.threadCpuUsage();
    let count = 0;
    for (const _ of mergeLayers(layers.map(one => one.values()))) count += 1;
    assert.equal(count, 200_000);
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1000;
  };
  msOf(layersOf(2, 100_000));
  const [few, many] = [msOf(layersOf(2, 100_000)), msOf(layersOf(200, 1000))];
  t.diagnostic(`2 layers ${few.toFixed()} ms, 200 layers ${many.toFixed()} ms`);
  assert.ok(many < Math.max(few, boundMs(50)) * 10, `${few} ms, ${many} ms`);
});
