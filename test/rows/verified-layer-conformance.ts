import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import type { Rows } from '../../src/storage/rows/rows.ts';

type WithRows = (work: (rows: Rows) => Promise<void>) => Promise<void>;

/** Tests the requirements of every implementation of the records of verified layers. */
export function testVerifiedLayers(withRows: WithRows): void {
  test('a verified layer is known for each registry, until nobody has used it for a time', () =>
    withRows(async ({ verifiedLayers }) => {
      const dayMs = 86_400_000;
      const [layer, diffId, other] = [digestOf('layer'), digestOf('tar'), digestOf('other')];
      await verifiedLayers.put(layer, 'one.test', digestOf('wrong'), 0);
      await verifiedLayers.put(layer, 'one.test', diffId, 0);
      await verifiedLayers.put(other, 'one.test', diffId, 0);
      assert.equal(await verifiedLayers.find(layer, 'one.test', 2 * dayMs), diffId);
      assert.equal(await verifiedLayers.find(layer, 'two.test', 0), undefined);
      assert.equal(await verifiedLayers.find(other, 'one.test', 1), diffId);
      assert.equal(await verifiedLayers.purge(dayMs, 3 * dayMs), 1);
      assert.equal(await verifiedLayers.find(other, 'one.test', 0), undefined);
      assert.equal(await verifiedLayers.purge(0, dayMs), 1, 'a wrong clock dated it');
      assert.equal(await verifiedLayers.find(layer, 'one.test', 0), undefined);
    }));
  test('a purge does not overlook uses that are still being written', () =>
    withRows(async ({ verifiedLayers }) => {
      const dayMs = 86_400_000;
      const layers = Array.from({ length: 20 }, (_, count) => digestOf(`layer ${count}`));
      for (const layer of layers) await verifiedLayers.put(layer, 'one.test', layer, 0);
      await Promise.all(layers.map(layer => verifiedLayers.find(layer, 'one.test', 2 * dayMs)));
      assert.equal(await verifiedLayers.purge(dayMs, 3 * dayMs), 0);
    }));
}
