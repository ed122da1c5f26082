import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { augmented, type GoldenBase, type GoldenResult } from '../golden/augmented.ts';
import { cases } from '../golden/cases.ts';

const root = join(import.meta.dirname, '../golden/augment');
const readJson = (...path: string[]) => JSON.parse(readFileSync(join(root, ...path), 'utf8'));

test('every case has a folder and every folder a case', () => {
  assert.deepEqual(readdirSync(root).sort(), Object.keys(cases).sort());
});

for (const [name, { change }] of Object.entries(cases)) {
  test(`golden: ${name}`, () => {
    const base = readJson(name, 'base.json') as GoldenBase;
    assert.deepEqual(base.change, change, 'the case was changed: run node test/golden/update.ts');
    const { result, files } = augmented(base, file => readFileSync(join(root, name, 'base', file)));
    assert.deepEqual(result, readJson(name, 'expected.json') as GoldenResult);
    assert.deepEqual([...files.keys()].sort(), readdirSync(join(root, name, 'expected')).sort());
    for (const [file, bytes] of files) {
      assert.ok(bytes.equals(readFileSync(join(root, name, 'expected', file))), file);
    }
  });
}

test('the digests of the files are what another program says they are', () => {
  for (const name of Object.keys(cases)) {
    const { generated } = readJson(name, 'expected.json') as GoldenResult;
    const files = Object.keys(generated);
    if (files.length === 0) continue;
    const lines = execFileSync('sha256sum', files, { cwd: join(root, name, 'expected') });
    const sums = Object.fromEntries(
      String(lines)
        .trim()
        .split('\n')
        .map(line => [line.slice(66), `sha256:${line.slice(0, 64)}`]),
    );
    assert.deepEqual(sums, Object.fromEntries(files.map(file => [file, generated[file]?.digest])));
  }
});
