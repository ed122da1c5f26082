import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Flat, flatten } from './flatten.ts';
import type { TarPart } from './tar-file.ts';

const base: readonly TarPart[] = [
  { name: 'dir/', type: 'directory', mode: 0o750 },
  { name: 'dir/old', content: 'x' },
  { name: 'file', content: 'x' },
  { name: 'link', type: 'symlink', link: 'dir' },
  { name: 'absolute', type: 'symlink', link: '/dir' },
  { name: 'climbing', type: 'symlink', link: '../../../dir' },
  { name: 'dir/rooted', type: 'symlink', link: '/dir' },
  { name: 'dangling', type: 'symlink', link: 'no/where' },
  { name: 'winding', type: 'symlink', link: 'no/../dir/.././dir' },
];
const flatBase = {
  dir: 'directory 750',
  'dir/old': 'file 644 0:1',
  file: 'file 644 0:2',
  link: 'symlink dir',
  absolute: 'symlink /dir',
  climbing: 'symlink ../../../dir',
  'dir/rooted': 'symlink /dir',
  dangling: 'symlink no/where',
  winding: 'symlink no/../dir/.././dir',
};

const emptied = { 'dir/old': undefined, 'dir/rooted': undefined };

/** What a layer over the base adds to it; undefined is gone. */
type Change = Readonly<Record<string, string | undefined>>;

const changes: Readonly<Record<string, { layer: readonly TarPart[]; change: Change }>> = {
  'a new file': { layer: [{ name: 'new' }], change: { new: 'file 644 1:0' } },
  'a changed file': { layer: [{ name: 'file' }], change: { file: 'file 644 1:0' } },
  'a changed directory keeps its entries': {
    layer: [{ name: 'dir', type: 'directory', mode: 0o1777 }],
    change: { dir: 'directory 1777' },
  },
  'a whiteout': { layer: [{ name: 'dir/.wh.old' }], change: { 'dir/old': undefined } },
  'a whiteout of a directory': {
    layer: [{ name: '.wh.dir' }],
    change: { dir: undefined, ...emptied },
  },
  'a whiteout of nothing': { layer: [{ name: 'no/.wh.thing' }], change: {} },
  'a whiteout through a link': {
    layer: [{ name: 'link/.wh.old' }],
    change: { 'dir/old': undefined },
  },
  'a whiteout after a file of the same layer': {
    layer: [{ name: 'file' }, { name: '.wh.file' }],
    change: { file: 'file 644 1:0' },
  },
  'a whiteout after entries of the same layer in the directory': {
    layer: [{ name: 'dir/new' }, { name: '.wh.dir' }],
    change: { ...emptied, 'dir/new': 'file 644 1:0' },
  },
  'an opaque directory': {
    layer: [{ name: 'dir/.wh..wh..opq' }, { name: 'dir/new' }],
    change: { ...emptied, 'dir/new': 'file 644 1:1' },
  },
  'an opaque directory, said last': {
    layer: [{ name: 'dir/new' }, { name: 'dir/.wh..wh..opq' }],
    change: { ...emptied, 'dir/new': 'file 644 1:0' },
  },
  'an opaque root': {
    layer: [{ name: '.wh..wh..opq' }, { name: 'new' }],
    change: {
      ...Object.fromEntries(Object.keys(flatBase).map(name => [name, undefined])),
      new: 'file 644 1:1',
    },
  },
  'a file in place of a directory': {
    layer: [{ name: 'dir' }],
    change: { dir: 'file 644 1:0', ...emptied },
  },
  'a directory in place of a file': {
    layer: [{ name: 'file/', type: 'directory' }, { name: 'file/new' }],
    change: { file: 'directory 755', 'file/new': 'file 644 1:1' },
  },
  'a directory in place of a link': {
    layer: [{ name: 'link/', type: 'directory' }, { name: 'link/new' }],
    change: { link: 'directory 755', 'link/new': 'file 644 1:1' },
  },
  'a link in place of a directory': {
    layer: [{ name: 'dir', type: 'symlink', link: 'file' }],
    change: { dir: 'symlink file', ...emptied },
  },
  'a file below a file': {
    layer: [{ name: 'file/new' }],
    change: { file: 'directory 755', 'file/new': 'file 644 1:0' },
  },
  'a file in a linked directory': {
    layer: [{ name: 'link/new' }],
    change: { 'dir/new': 'file 644 1:0' },
  },
  'a file behind an absolute link': {
    layer: [{ name: 'absolute/new' }],
    change: { 'dir/new': 'file 644 1:0' },
  },
  'a file behind an absolute link below a directory': {
    layer: [{ name: 'dir/rooted/new' }],
    change: { 'dir/new': 'file 644 1:0' },
  },
  'a file behind a link that climbs above the root': {
    layer: [{ name: 'climbing/new' }],
    change: { 'dir/new': 'file 644 1:0' },
  },
  'a file behind a link to nothing': {
    layer: [{ name: 'dangling/new' }],
    change: { no: 'directory 755', 'no/where': 'directory 755', 'no/where/new': 'file 644 1:0' },
  },
  'a file behind a link that goes there and back': {
    layer: [{ name: 'winding/new' }],
    change: { 'dir/new': 'file 644 1:0' },
  },
  'directories that are not said': {
    layer: [{ name: 'a/b/c' }],
    change: { a: 'directory 755', 'a/b': 'directory 755', 'a/b/c': 'file 644 1:0' },
  },
  'a directory after its entries': {
    layer: [{ name: 'a/b' }, { name: 'a', type: 'directory', mode: 0o700 }],
    change: { a: 'directory 700', 'a/b': 'file 644 1:0' },
  },
  'names that lead out, or around': {
    layer: [
      { name: '/rooted' },
      { name: '../../up' },
      { name: './here' },
      { name: 'a//b/../c/.' },
      { name: '..', type: 'directory' },
    ],
    change: {
      rooted: 'file 644 1:0',
      up: 'file 644 1:1',
      here: 'file 644 1:2',
      a: 'directory 755',
      'a/c': 'file 644 1:3',
    },
  },
  'a name twice': {
    layer: [{ name: 'new' }, { name: 'new', mode: 0o600 }],
    change: { new: 'file 600 1:1' },
  },
  'a hard link to a file below': {
    layer: [{ name: 'hard', type: 'link', link: 'file' }],
    change: { hard: 'file 644 0:2' },
  },
  'a hard link through a link': {
    layer: [{ name: 'hard', type: 'link', link: '/link/old' }],
    change: { hard: 'file 644 0:1' },
  },
  'a hard link to a symbolic link': {
    layer: [{ name: 'hard', type: 'link', link: 'link' }],
    change: { hard: 'symlink dir' },
  },
  'a hard link to a file that is replaced after it': {
    layer: [{ name: 'hard', type: 'link', link: 'file' }, { name: 'file' }],
    change: { hard: 'file 644 0:2', file: 'file 644 1:1' },
  },
  'a hard link to a file that is removed after it': {
    layer: [{ name: 'hard', type: 'link', link: 'file' }, { name: '.wh.file' }],
    change: { hard: 'file 644 0:2', file: undefined },
  },
  'a hard link in place of the directory of its target': {
    layer: [{ name: 'dir', type: 'link', link: 'dir/old' }],
    change: { dir: 'file 644 0:1', ...emptied },
  },
  'a hard link to itself': { layer: [{ name: 'file', type: 'link', link: 'file' }], change: {} },
  'a name of 255 bytes': {
    layer: [{ name: 'n'.repeat(255) }],
    change: { ['n'.repeat(255)]: 'file 644 1:0' },
  },
};

for (const [name, { layer, change }] of Object.entries(changes)) {
  test(`a layer with ${name}`, () => {
    const expected = Object.entries({ ...flatBase, ...change }).filter(([, what]) => what);
    assert.deepEqual(flatten([base, layer]), Object.fromEntries(expected) as Flat);
  });
}

test('a whiteout hides files of lower layers, and not those of upper ones', () => {
  const layers = [[{ name: 'a/1' }], [{ name: 'a/2' }], [{ name: '.wh.a' }], [{ name: 'a/3' }]];
  assert.deepEqual(flatten(layers), { a: 'directory 755', 'a/3': 'file 644 3:0' });
});

const refusals: Readonly<Record<string, { layer: readonly TarPart[]; message: RegExp }>> = {
  'a path in a circle': {
    layer: [{ name: 'loop', type: 'symlink', link: 'loop' }, { name: 'loop/x' }],
    message: /too many symbolic links, "loop"/,
  },
  'a hard link to nothing': {
    layer: [{ name: 'hard', type: 'link', link: 'absent' }],
    message: /a hard link, "hard", to a missing file, "absent"/,
  },
  'a hard link to a file that was removed before': {
    layer: [{ name: '.wh.file' }, { name: 'hard', type: 'link', link: 'file' }],
    message: /a missing file/,
  },
  'a hard link to a directory': {
    layer: [{ name: 'hard', type: 'link', link: 'dir/' }],
    message: /to a directory, "dir\/"/,
  },
  'a symbolic link to nothing at all': {
    layer: [{ name: 's', type: 'symlink', link: '' }],
    message: /a symbolic link to nothing, "s"/,
  },
  'a root that is not a directory': {
    layer: [{ name: './', type: 'symlink', link: 'x' }],
    message: /symlink in place of the root/,
  },
  'a whiteout of the directory above': {
    layer: [{ name: 'dir/.wh...' }],
    message: /names no file/,
  },
  'a name of 256 bytes': { layer: [{ name: 'n'.repeat(256) }], message: /name longer than 255/ },
  'a path of 4096 bytes': {
    layer: [{ name: `${'n'.repeat(15)}/`.repeat(256) }],
    message: /path longer than 4095/,
  },
  'a path that links make longer than 4095 bytes': {
    layer: [
      { name: 'deep', type: 'symlink', link: `${'n'.repeat(15)}/`.repeat(200) },
      { name: `deep/${'n'.repeat(15)}/`.concat(`${'m'.repeat(15)}/`.repeat(60)) },
    ],
    message: /path longer than 4095/,
  },
  'a target of 4096 bytes': {
    layer: [{ name: 's', type: 'symlink', link: 't'.repeat(4096) }],
    message: /symbolic link to more than 4095/,
  },
};

for (const [name, { layer, message }] of Object.entries(refusals)) {
  test(`a layer with ${name} is refused`, () => {
    assert.throws(() => flatten([base, layer]), { message });
  });
}

test('too many files are refused, including directories that only a path implies', () => {
  assert.equal(Object.keys(flatten([[{ name: 'a/b/c' }]], 3)).length, 3);
  assert.throws(() => flatten([[{ name: 'a/b/c' }]], 2), { kind: 'too-large', phase: 'limit' });
  const twice = [[{ name: 'a' }], [{ name: '.wh.a' }, { name: 'a' }]];
  assert.throws(() => flatten(twice, 1), { kind: 'too-large' });
});

test('names and targets share a limit', () => {
  const layer = Array.from({ length: 17_000 }, (_, index): TarPart => {
    return { name: `s${index}`, type: 'symlink', link: 't'.repeat(4000) };
  });
  assert.throws(() => flatten([layer], 1e6), {
    kind: 'too-large',
    message: /64 MiB of file names/,
  });
});
