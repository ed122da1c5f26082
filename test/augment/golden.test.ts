import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { augmented, type GoldenBase, type GoldenResult } from '../golden/augmented.ts';
import { cases } from '../golden/cases.ts';

const root = join(import.meta.dirname, '../golden/augment');
const readJson = (...path: string[]) => JSON.parse(readFileSync(join(root, ...path), 'utf8'));

test('every case has a folder, and every folder has a case', () => {
  assert.deepEqual(readdirSync(root).sort(), Object.keys(cases).sort());
});

for (const [name, { change }] of Object.entries(cases)) {
  test(`golden: ${name}`, () => {
    const base = readJson(name, 'base.json') as GoldenBase;
    assert.deepEqual(
      base.change,
      change,
      'the case was changed: run npx node test/golden/update.ts',
    );
    const { result, files } = augmented(base, file => readFileSync(join(root, name, 'base', file)));
    assert.deepEqual(result, readJson(name, 'expected.json') as GoldenResult);
    assert.deepEqual([...files.keys()].sort(), filesIn(join(root, name, 'expected')).sort());
    for (const [file, bytes] of files) {
      assert.ok(bytes.equals(readFileSync(join(root, name, 'expected', file))), file);
    }
  });
}

/** Returns the digests that sha256sum prints for the files, by name. */
function sumsOf(folder: string, files: readonly string[]): Record<string, string> {
  const lines = String(execFileSync('sha256sum', files, { cwd: folder }));
  return Object.fromEntries(
    lines
      .trim()
      .split('\n')
      .map(line => [line.slice(66), `sha256:${line.slice(0, 64)}`]),
  );
}

test('the digests of the files match those of another program', () => {
  for (const name of Object.keys(cases)) {
    const { documents } = readJson(name, 'base.json') as GoldenBase;
    const base = Object.fromEntries(documents.map(({ file, digest }) => [file, digest]));
    assert.deepEqual(sumsOf(join(root, name, 'base'), Object.keys(base)), base);
    const { generated } = readJson(name, 'expected.json') as GoldenResult;
    const made = Object.fromEntries(
      Object.entries(generated).map(([file, { digest }]) => [file, digest]),
    );
    if (Object.keys(made).length === 0) continue;
    assert.deepEqual(sumsOf(join(root, name, 'expected'), Object.keys(made)), made);
  }
});

/** The names in a folder; one without files is not kept by git and may be absent. */
function filesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}
