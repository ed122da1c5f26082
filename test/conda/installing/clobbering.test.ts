/** Packages that have the same path: rattler is the judge of who keeps it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  installOrder,
  type PathsOfPackage,
  resolveClobbering,
} from '../../../src/conda/installing/clobbering.ts';
import type { CondaPackage } from '../../world/conda-package.ts';
import { judge } from './judged.ts';

const file = (name: string, content: string) => ({ name, content });

const clobbering: readonly CondaPackage[] = [
  {
    name: 'base',
    version: '1',
    files: [file('bin/tool', 'base'), file('lib/b', 'b'), { name: 'lib64', link: 'lib' }],
  },
  {
    name: 'user',
    version: '1',
    depends: ['base >=1'],
    files: [file('bin/tool', 'user'), file('lib64/u', 'u')],
  },
  {
    name: 'alpha',
    version: '1',
    files: [file('bin/tool', 'alpha'), file('bin/a', 'a')],
  },
  { name: 'zeta', version: '1', noarch: 'generic', files: [file('bin/a', 'zeta')] },
  // Two that require each other.
  { name: 'one', version: '1', depends: ['two'], files: [file('c', '1')] },
  { name: 'two', version: '1', depends: ['one'], files: [file('c', '2')] },
];

test('packages that have the same paths leave the same tree as by rattler', async () => {
  const { rattler, ours } = await judge({ packages: clobbering });
  assert.ok(Object.keys(rattler.tree).some(path => path.startsWith('__clobbers__/base/')));
  assert.deepEqual(ours, rattler);
});

const of = (name: string, paths: string[], depends: string[] = []): PathsOfPackage => ({
  ...{ name, paths, depends, isNoarch: false },
});

test('a package keeps a path against those that it requires, in whatever order they come', () => {
  const packages = [of('a', ['x', 'y'], ['b >=1']), of('b', ['x', 'z/1']), of('c', ['q'])];
  const expected = new Map([['b', ['x']]]);
  assert.deepEqual(resolveClobbering(packages), expected);
  assert.deepEqual(resolveClobbering(packages.toReversed()), expected);
});

test('a file hides all that is below its name, and is hidden by a later directory', () => {
  const [early, late] = [of('early', ['d/1', 'd/e/2', 'f']), of('late', ['d', 'f/1'], ['early'])];
  assert.deepEqual(resolveClobbering([early, late]), new Map([['early', ['d/1', 'd/e/2', 'f']]]));
});

test('packages without a path in common lose nothing', () => {
  assert.equal(resolveClobbering([of('a', ['x/1', 'x/2']), of('b', ['x/3', 'xy'])]).size, 0);
});

test('a noarch package comes after the others of its circle', () => {
  const noarch = { ...of('a', [], ['python']), isNoarch: true };
  const order = installOrder([noarch, of('python', [], ['a', '__glibc >=2.17'])]);
  assert.deepEqual(
    order.map(({ name }) => name),
    ['python', 'a'],
  );
});

test('a million paths are compared in seconds, a chain of many packages without a deep stack', () => {
  const packages = Array.from({ length: 5000 }, (_, index) =>
    of(
      `p${index}`,
      Array.from({ length: 40 }, (__, file) => `lib/p${index}/${file}`),
      [`p${index + 1}`],
    ),
  );
  assert.equal(resolveClobbering([...packages, of('same', ['lib/p1/2'])]).size, 1);
});
