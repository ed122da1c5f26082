/** Definition files that are made to cost much. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { translateDefinition } from '../../src/images/sif/definition/definition.ts';
import { longestBlock } from '../world/longest-block.ts';

const header = 'Bootstrap: docker\nFrom: alpine\n';

test('arguments are limited for all stages together', () => {
  const stage = `${header}%arguments\nA=${'x'.repeat(1000)}\n%post\n${'{{ A }}\n'.repeat(100)}`;
  assert.ok(translateDefinition(stage));
  assert.throws(() => translateDefinition(stage.repeat(3)), /longer than 256 KiB/);
});

test('a line of %files with very many words and blanks holds nobody up', async () => {
  const text = `${header}%files\n${'a '.repeat(65_000)}${' '.repeat(130_000)}`;
  const { cpuMs } = await longestBlock(async () => {
    assert.throws(() => translateDefinition(text), /is not a source and a destination/);
  });
  assert.ok(cpuMs < 1000, `${cpuMs} ms`);
});
