import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { condaRecipeVersion } from '../../src/builds/recipe/conda/install/conda-recipe.ts';
import { baseImagesOf } from '../../src/builds/recipe/dockerfile/base-images.ts';
import { buildCases } from '../golden/build-cases.ts';
import { built } from '../golden/built.ts';

const root = join(import.meta.dirname, '../golden/build');
const folders = () => readdirSync(root).filter(name => statSync(join(root, name)).isDirectory());

test('every case has a folder and every folder a case', () => {
  assert.deepEqual(folders().sort(), Object.keys(buildCases).sort());
});

for (const [name, submitted] of Object.entries(buildCases)) {
  test(`golden: ${name}`, () => {
    const files = built(submitted);
    const there = globSync('**/*', { cwd: join(root, name) }).filter(path =>
      statSync(join(root, name, path)).isFile(),
    );
    assert.deepEqual([...files.keys()].sort(), there.sort());
    for (const [path, text] of files) {
      assert.equal(text, readFileSync(join(root, name, path), 'utf8'), path);
    }
  });
}

test('the golden files belong to the recipe version of the code', () => {
  assert.equal(readFileSync(join(root, 'recipe-version.txt'), 'utf8'), `${condaRecipeVersion}\n`);
});

test('generated recipes have LF line endings and no trailing spaces, and end with a line break', () => {
  for (const [name, submitted] of Object.entries(buildCases)) {
    if (submitted.containerFile !== undefined) continue;
    for (const [path, text] of built(submitted)) {
      assert.ok(text.endsWith('\n'), `${name}/${path}`);
      assert.doesNotMatch(text, /\r|[ \t]\n/, `${name}/${path}`);
    }
  }
});

test('the key is what sha256sum prints for the canonical text', () => {
  for (const name of folders()) {
    const sum = String(execFileSync('sha256sum', ['canonical.txt'], { cwd: join(root, name) }));
    const names = readFileSync(join(root, name, 'names.txt'), 'utf8');
    assert.match(names, new RegExp(`^none: \\S+:${sum.slice(0, 32)}\n`), name);
  }
});

test('a Conda recipe begins with its two images, and its final stage is the base image', () => {
  for (const name of folders().filter(folder => folder !== 'container-file')) {
    const text = readFileSync(join(root, name, 'Dockerfile'), 'utf8');
    const images = baseImagesOf(text).map(({ reference, use }) => `${use} ${reference}`);
    const froms = [...text.matchAll(/^FROM (\S+) AS (\S+)$/gm)].map(([, image, as]) => [as, image]);
    const { build, lock, final } = Object.fromEntries(froms) as Record<string, string>;
    assert.deepEqual(Object.keys(Object.fromEntries(froms)), ['build', 'lock', 'final'], name);
    assert.equal(lock, 'scratch');
    assert.deepEqual(images, [`FROM ${build}`, `FROM ${final}`], name);
    assert.deepEqual(
      baseImagesOf(text, { target: 'lock' }).map(({ reference }) => reference),
      [build],
      name,
    );
  }
});
