import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Machine, type Road, roadsOf } from '../../scripts/tools/buildkit-roads.ts';

const debian: Machine = { go: undefined, isDebian: true, isRoot: true };

const cases: readonly (readonly [string, Machine, readonly Road[]])[] = [
  ['Debian without Go', debian, ['debian-go', 'debian-source']],
  ['Debian with a new Go', { ...debian, go: '1.26.8' }, ['go', 'debian-source']],
  ['Debian with a newer Go', { ...debian, go: '1.30' }, ['go', 'debian-source']],
  ['a Go 2', { ...debian, go: '2.0.1' }, ['go', 'debian-source']],
  [
    'a Go that fetches a newer one',
    { ...debian, go: '1.24.4' },
    ['go', 'debian-go', 'debian-source'],
  ],
  ['a Go just too old', { ...debian, go: '1.26.7' }, ['go', 'debian-go', 'debian-source']],
  ['the Go of Debian 12', { ...debian, go: '1.19.8' }, ['debian-go', 'debian-source']],
  ['a candidate', { ...debian, go: '1.27rc1' }, ['go', 'debian-source']],
  ['no root', { ...debian, isRoot: false }, []],
  ['no root, but Go', { ...debian, isRoot: false, go: '1.26.8' }, ['go']],
  ['not Debian', { go: undefined, isDebian: false, isRoot: true }, []],
  ['not Debian, but Go', { go: '1.27.0', isDebian: false, isRoot: false }, ['go']],
];

for (const [name, machine, roads] of cases) {
  test(`how BuildKit is built: ${name}`, () => {
    assert.deepEqual(roadsOf(machine), roads);
  });
}
