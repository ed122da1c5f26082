/** The copy of all content to another store, several contents at a time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { copyContent } from '../../src/server/upkeep/backup.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import { makeTempDir } from '../world/temp-dir.ts';

test('a copy that fails while the next content is looked for is reported', async () => {
  await using directory = await makeTempDir('copy-content');
  const source = await openContentDirectory(directory.join('source'));
  const target = await openContentDirectory(directory.join('target'));
  for (const text of ['first', 'second']) await source.write(digestOf(text), Buffer.from(text));
  const failed = Promise.withResolvers<void>();
  const slow: ContentStore = {
    ...source,
    async *list() {
      let count = 0;
      for await (const found of source.list()) {
        if (count > 0) await failed.promise;
        // Handlers of the failure run first.
        await new Promise(resolve => setImmediate(resolve));
        count += 1;
        yield found;
      }
    },
  };
  let attempts = 0;
  const failing: ContentStore = {
    ...target,
    async ingest(algorithm, expected) {
      attempts += 1;
      if (attempts > 1) return target.ingest(algorithm, expected);
      setImmediate(failed.resolve);
      throw new Error('the target is away');
    },
  };
  await assert.rejects(copyContent(slow, failing, { atOnce: 8 }), /the target is away/);
  assert.equal((await copyContent(source, target, { atOnce: 8 })).copied, 2);
  await source.close();
  await target.close();
});
