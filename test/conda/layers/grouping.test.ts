/** Which packages share a layer depends on the packages of the image only, and hardly changes when one of them does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type GroupedPackage,
  groupPackages,
  mostPackageLayers,
  popularNames,
} from '../../../src/conda/layers/group-packages.ts';

const name = fc.oneof(
  fc.constantFrom(...popularNames),
  fc.stringMatching(/^[a-z][a-z0-9_-]{1,12}$/),
);
const one: fc.Arbitrary<GroupedPackage> = fc.record({ name, size: fc.nat(200_000_000) });
const environment = fc.uniqueArray(one, { selector: ({ name: own }) => own, maxLength: 400 });

const textOf = (groups: readonly (readonly GroupedPackage[])[]) =>
  groups.map(group => group.map(({ name: own }) => own).join(' '));

test('each package is in one layer, and no image has too many', () => {
  fc.assert(
    fc.property(environment, packages => {
      const groups = groupPackages(packages);
      assert.ok(groups.length <= mostPackageLayers);
      assert.ok(groups.every(group => group.length > 0));
      assert.deepEqual(
        groups.flat().toSorted((a, b) => (a.name < b.name ? -1 : 1)),
        packages.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
      );
      if (packages.length <= mostPackageLayers) assert.equal(groups.length, packages.length);
    }),
  );
});

test('the order of the packages changes nothing', () => {
  fc.assert(
    fc.property(environment, fc.infiniteStream(fc.nat()), (packages, order) => {
      const keys = new Map(packages.map(member => [member, order.next().value]));
      const other = packages.toSorted((a, b) => (keys.get(a) ?? 0) - (keys.get(b) ?? 0));
      assert.deepEqual(textOf(groupPackages(other)), textOf(groupPackages(packages)));
    }),
  );
});

test('a version of about the same size keeps the place of its package', () => {
  fc.assert(
    fc.property(environment, fc.nat(), (packages, at) => {
      const changed = packages.map((member, index) =>
        index === at % packages.length ? { ...member, size: member.size | 1 } : member,
      );
      assert.deepEqual(textOf(groupPackages(changed)), textOf(groupPackages(packages)));
    }),
  );
});

test('one more package changes few layers of a large environment', () => {
  const large = fc.uniqueArray(one, {
    ...{ selector: ({ name: own }: GroupedPackage) => own },
    ...{ minLength: mostPackageLayers + 2, maxLength: 300 },
  });
  fc.assert(
    fc.property(large, ([added, ...packages]) => {
      const before = new Set(textOf(groupPackages(packages)));
      const after = textOf(groupPackages([...packages, added as GroupedPackage]));
      // It has a layer or shares one, and may take the layer of another package, which then shares one.
      assert.ok(after.filter(group => !before.has(group)).length <= 2);
    }),
  );
});

test('the popular packages are below, and large packages do not share a layer', () => {
  const small = Array.from({ length: 120 }, (_, at) => ({ name: `rare-${at}`, size: 1000 }));
  const large = { name: 'zz-large', size: 100_000_000 };
  const known = ['python', 'openssl'].map(own => ({ name: own, size: 20_000_000 }));
  const groups = textOf(groupPackages([...small, large, ...known]));
  assert.deepEqual(groups.slice(0, 2), ['openssl', 'python']);
  assert.ok(groups.includes('zz-large'));
  assert.ok(groups.some(group => group.includes(' ')));
  assert.equal(new Set(popularNames).size, popularNames.length, 'a name is listed once');
});

test('the layers of a given environment are those of every other server and of every later version', () => {
  const packages = Array.from({ length: 100 }, (_, at) => ({
    name: at % 2 === 0 ? (popularNames[at] as string) : `package-${at}`,
    size: at * at * 3000,
  }));
  assert.deepEqual(textOf(groupPackages(packages)).slice(76), [
    'package-29 package-51',
    'package-11',
    'package-25 package-27',
    'package-67',
    'package-31 package-69',
    'package-59',
    'package-17',
    'package-5 package-9',
    'package-43',
    'package-41 package-63',
    'package-7',
  ]);
});
