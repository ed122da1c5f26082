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

test('words after the two paths of %files are ignored, as Apptainer does, and very many hold nobody up', async () => {
  const dockerfileOf = (line: string) =>
    translateDefinition(`${header}%files\n ${line}`).dockerfile;
  for (const more of ['c', "c d 'e", '$X # a comment', '/d ../e']) {
    assert.equal(dockerfileOf(`a /b ${more}`), dockerfileOf('a /b'), more);
  }
  const text = `${header}%files\n${'a '.repeat(65_000)}${' '.repeat(130_000)}`;
  const { cpuMs } = await longestBlock(async () => {
    assert.ok(translateDefinition(text));
  });
  assert.ok(cpuMs < 1000, `${cpuMs} ms`);
});

test('braces of %files stand for a limited number of names', () => {
  const translate = (word: string, lines = 1) =>
    translateDefinition(
      `Bootstrap: docker\nFrom: alpine\n%files\n${`  ${word} /x/\n`.repeat(lines)}`,
    );
  assert.ok(translate('{a,b}'.repeat(9)));
  assert.ok(translate('{'.repeat(2000) + '}'.repeat(2000)));
  for (const word of ['{a,b}'.repeat(800), `{${'{a,b}'.repeat(700)},c}`, '{a,'.repeat(1300)]) {
    assert.throws(() => translate(`${word}{c,d}${'x'.repeat(3000)}`), /too many names/);
  }
  assert.throws(() => translate('{a,b}'.repeat(800)), /too many names/);
  assert.throws(() => translate(`{1..1000}${'x'.repeat(200)}`, 100), /longer than 256 KiB/);
});
