import { baseLayer } from '../corpus/base.ts';
import type { Layer } from '../corpus/layer.ts';
import { type TarPart, tarLayer } from './tar-file.ts';

const long = (name: string) => `${name}/${'very-long-name-'.repeat(6)}/${'x'.repeat(200)}`;

/** Contents of layers of real images, and others that only tests have. */
const lower: readonly TarPart[] = [
  { name: './', type: 'directory', mode: 0o755 },
  { name: 'a/', type: 'directory', mode: 0o750, mtime: 1_600_000_000 },
  { name: 'a/kept', content: 'kept', mtime: 1_600_000_001 },
  { name: 'a/gone', content: 'must not be seen' },
  { name: 'a/changed', content: 'first', mode: 0o600 },
  { name: 'gone-tree/', type: 'directory' },
  { name: 'gone-tree/deep/', type: 'directory' },
  { name: 'gone-tree/deep/file', content: 'must not be seen' },
  { name: 'opaque/', type: 'directory', mode: 0o700 },
  { name: 'opaque/hidden', content: 'must not be seen' },
  { name: 'opaque/sub/', type: 'directory' },
  { name: 'opaque/sub/hidden', content: 'must not be seen' },
  { name: 'was-dir/', type: 'directory' },
  { name: 'was-dir/below', content: 'must not be seen' },
  { name: 'was-file', content: 'must not be seen' },
  { name: 'was-link', type: 'symlink', link: 'a' },
  { name: 'links/', type: 'directory' },
  { name: 'links/one', content: 'shared', mode: 0o640 },
  { name: 'links/two', type: 'link', link: 'links/one' },
  { name: 'links/three', type: 'link', link: './links/two' },
  { name: 'links/replaced', content: 'content of the first', mode: 0o755 },
  { name: 'links/stays', type: 'link', link: 'links/replaced' },
  { name: 'links/gone-target', content: 'its other name stays' },
  { name: 'links/left-over', type: 'link', link: 'links/gone-target' },
  { name: 'links/symbolic', type: 'symlink', link: 'one' },
  { name: 'links/to-symbolic', type: 'link', link: 'links/symbolic' },
  { name: 'odd/', type: 'directory', mode: 0o1777 },
  { name: 'odd/setuid', content: 'x', mode: 0o4755 },
  { name: 'odd/setgid', content: 'x', mode: 0o2711 },
  { name: 'odd/no-mode', content: 'nobody may read this', mode: 0 },
  { name: 'odd/no-mode-dir/', type: 'directory', mode: 0 },
  { name: 'odd/no-mode-dir/file', content: 'below it' },
  { name: 'odd/owner', content: 'x', uid: 4_000_000_000, numbers: 'base-256' },
  { name: 'odd/fifo', type: 'fifo', mode: 0o622 },
  { name: 'odd/empty', content: '' },
  { name: 'odd/capability', content: 'x', pax: { 'SCHILY.xattr.user.note': 'kept by some' } },
  { name: 'odd/new\nline', content: 'x' },
  { name: 'odd/quote"and\'back\\slash', content: 'x' },
  { name: 'odd/ leading and trailing ', content: 'x' },
  { name: 'odd/ümläut-日本', content: 'x' },
  { name: Buffer.from('odd/latin-\xe9', 'latin1'), content: 'not UTF-8' },
  { name: Buffer.from(`odd/${'latin-\xe9'.repeat(30)}`, 'latin1'), content: 'x', long: 'gnu' },
  { name: long('long-pax'), content: 'x' },
  { name: long('long-gnu'), content: 'x', long: 'gnu' },
  { name: 'odd/long-target', type: 'symlink', link: `../${long('nowhere')}` },
  { name: 'odd/long-absolute', type: 'symlink', link: `/${long('nowhere')}`, long: 'gnu' },
  { name: 'odd/dots', type: 'symlink', link: './././../..//a' },
  { name: '/absolute', content: 'x' },
  { name: '../../climbing', content: 'x' },
  { name: 'implied/by/a/file', content: 'x', mtime: 1_600_000_002 },
  { name: 'real/', type: 'directory' },
  { name: 'linked', type: 'symlink', link: 'real' },
  { name: 'linked-absolute', type: 'symlink', link: '/real' },
];

const middle: readonly TarPart[] = [
  { name: 'a/.wh.gone', content: '' },
  { name: '.wh.gone-tree', content: '' },
  { name: 'a/changed', content: 'second', mode: 0o644 },
  { name: 'opaque/', type: 'directory', mode: 0o711 },
  { name: 'opaque/shown', content: 'shown' },
  { name: 'opaque/.wh..wh..opq', content: '' },
  { name: 'was-dir', content: 'now a file' },
  { name: 'was-file/', type: 'directory' },
  { name: 'was-file/below', content: 'now there' },
  { name: 'was-link/', type: 'directory', mode: 0o700 },
  { name: 'was-link/below', content: 'in a directory of its own' },
  { name: 'links/replaced', content: 'content of the second', mode: 0o700 },
  { name: 'links/.wh.gone-target', content: '' },
  { name: 'links/from-above', type: 'link', link: 'links/one' },
];

const upper: readonly TarPart[] = [
  { name: 'gone-tree/', type: 'directory' },
  { name: 'gone-tree/back', content: 'there again' },
  { name: 'a/', type: 'directory', mode: 0o755, mtime: 1_700_000_000 },
  { name: 'links/twice-removed', type: 'link', link: 'links/from-above' },
  { name: '.wh.nothing', content: '' },
];

/** Devices, which only images have that were made by root: Apptainer and Sluice differ in them. */
export const devices: readonly TarPart[] = [
  { name: 'dev/', type: 'directory' },
  { name: 'dev/null', type: 'character', mode: 0o666, device: [1, 3] },
  { name: 'odd/', type: 'directory', mode: 0o1777 },
  { name: 'odd/zero', type: 'character', mode: 0o666, device: [1, 5] },
  { name: 'odd/loop', type: 'block', mode: 0o660, device: [7, 0] },
];

export async function nastyLayers(): Promise<Layer[]> {
  return [
    await baseLayer(),
    tarLayer(lower, 'gzip'),
    tarLayer(middle, 'zstd'),
    tarLayer(upper, 'none'),
  ];
}
