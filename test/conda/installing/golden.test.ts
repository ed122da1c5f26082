/** A package has the same bytes on every machine, and for ever. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { digestsFile, installedDigests } from '../../golden/conda.ts';

test('what is installed from the same archives has the same digests as ever', async () => {
  const digests = readFileSync(digestsFile, 'utf8');
  assert.ok(digests.split('\n').length > 10);
  assert.equal(await installedDigests(), digests);
});
