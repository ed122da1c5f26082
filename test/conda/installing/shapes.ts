import type { Entry } from '../../corpus/layer.ts';
import { type CondaPackage, placeholder } from '../../world/conda-package.ts';

/** Bytes without a zero, the same everywhere. */
const noise = Buffer.alloc(1024 * 1024);
let state = 1;
for (let at = 0; at < noise.length; at += 1) {
  state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
  noise[at] = (state >>> 16) % 250 || 1;
}

const utf16 = (text: string) => Buffer.from(text, 'utf16le');
const swapped = (text: string) => Buffer.from(text, 'utf16le').swap16();
const utf32 = (text: string) =>
  Buffer.concat([...text].map(character => Buffer.from([character.charCodeAt(0), 0, 0, 0])));
const utf32Swapped = (text: string) => utf32(text).swap32();
const inEncodings = Buffer.concat([
  Buffer.from('begin\0'),
  Buffer.from(`${placeholder}/lib:${placeholder}/lib64\0\0after\0`),
  utf16(`${placeholder}/wide\0after\0`),
  Buffer.from('\0\0'),
  swapped(`${placeholder}/big\0after\0`),
  utf32(`${placeholder}/widest\0after\0`),
  Buffer.from(`last without an end ${placeholder}/x`),
]);
/** Larger than what is read at once, the placeholder across its borders. */
const large = (separator: Buffer): Buffer =>
  Buffer.concat(
    Array.from({ length: 10 }, (_, index) => [
      noise.subarray(300 - index * 30),
      Buffer.from(`${placeholder}/share`),
      separator,
    ]).flat(),
  );

/** Files of random parts: placeholders, pieces of them, zeros, in all encodings, whole and cut. */
function randomFiles(count: number, folder: string): Entry[] {
  let seed = 7;
  const below = (limit: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 16) % limit;
  };
  const encodings = [(text: string) => Buffer.from(text), utf16, swapped, utf32, utf32Swapped];
  const texts = [
    placeholder,
    placeholder,
    `${placeholder}/lib`,
    placeholder.slice(0, 200),
    '/x',
    '',
  ];
  const fillers = ['\0', '\0\0', '\0\0\0\0', 'text', '\n', ':', '/opt/', '\xff'];
  const part = () => {
    const encode = encodings[below(encodings.length)] ?? utf16;
    const text = encode(texts[below(texts.length)] ?? '');
    const filler = Buffer.from(fillers[below(fillers.length)] ?? '', 'latin1');
    return Buffer.concat([text, filler]);
  };
  return Array.from({ length: count }, (_, index) => {
    const start = ['', '', '#!', `#!${placeholder}/bin/x \xff\xfe é`, '#! /bin/python3 '][below(5)];
    const parts = Array.from({ length: 1 + below(9) }, part);
    const content = Buffer.concat([Buffer.from(start ?? '', 'latin1'), ...parts]);
    return { name: `random/${folder}/${index}`, content };
  });
}

/** A package of each odd shape. Rattler installs them all. */
export const shapes: readonly CondaPackage[] = [
  {
    name: 'texts',
    version: '1.0',
    build: 'h1_2',
    depends: ['links >=1'],
    index: {
      ...{ license: 'MIT', license_family: 'MIT', arch: 'x86_64', platform: 'linux' },
      ...{ build_number: 2, timestamp: 1_700_000_000_000, constrains: ['other <2'] },
      ...{ track_features: 'one two', features: 'three' },
    },
    files: [
      {
        name: 'bin/script',
        content: `#!${placeholder}/bin/sh -e\necho ${placeholder}\n`,
        mode: 0o755,
      },
      {
        name: 'bin/python-script',
        content: `#! ${placeholder}/bin/python3.11 -s\nx\n`,
        mode: 0o755,
      },
      { name: 'bin/one-line', content: `#!${placeholder}/bin/perl`, mode: 0o755 },
      { name: 'bin/elsewhere', content: `#!/bin/sh\n${placeholder}\n`, mode: 0o755 },
      { name: 'etc/twice', content: `a=${placeholder}:${placeholder}${placeholder}/x\n` },
      { name: 'etc/wide.txt', content: utf16(`path=${placeholder}/wide\n`) },
      { name: 'etc/none', content: 'no prefix\n' },
      { name: 'etc/empty', content: '' },
      { name: 'share/large.txt', content: large(Buffer.from('\n')) },
    ],
  },
  {
    name: 'binaries',
    version: '1.0',
    files: [
      { name: 'bin/program', content: inEncodings, mode: 0o755 },
      { name: 'lib/large.bin', content: large(Buffer.from([0])) },
    ],
  },
  {
    name: 'links',
    version: '1.0',
    files: [
      { name: 'lib/libx.so.1.2', content: 'library', mode: 0o755, mtime: 1_500_000_000 },
      { name: 'lib/libx.so.1', link: 'libx.so.1.2', mtime: 1_600_000_000 },
      { name: 'lib/libx.so', link: 'libx.so.1' },
      { name: 'lib/away', link: '../share/nothing' },
      { name: 'etc/zone', link: '/etc/localtime' },
      { name: 'etc/hidden', link: '/root/.ssh/id_rsa' },
      { name: 'x86_64-linux-gnu/sysroot/lib64', link: '../../../../../../lib64' },
      { name: 'lib/host', link: '../../..' },
      { name: 'lib/loop', link: 'loop' },
      { name: 'lib/here', link: '.' },
      { name: 'lib/slashes', link: '//usr//lib/' },
      { name: 'lib/far', link: `/${'far/'.repeat(60)}file` },
      { name: 'bin/b', content: 'one content', mode: 0o755, mtime: 1_400_000_000 },
      { name: 'bin/a', hardLink: 'bin/b', mtime: 1_650_000_000 },
      { name: 'bin/c', hardLink: 'bin/b', mtime: 1_550_000_000 },
      { name: 'etc/one', content: `patched ${placeholder}\n` },
      { name: 'etc/two', hardLink: 'etc/one' },
    ],
  },
  {
    name: 'modes',
    version: '1.0',
    files: [
      ...[0o600, 0o444, 0o777, 0o4755, 0o2711, 0o664, 0o111].map(mode => ({
        name: `share/modes/${mode.toString(8)}`,
        content: `mode ${mode}`,
        mode,
        mtime: 1_234_567_890,
      })),
      { name: 'share/modes/patched', content: placeholder, mode: 0o640 },
      { name: 'share/old', content: 'of 1970', mtime: 1 },
    ],
  },
  {
    name: 'copied',
    version: '1.0',
    files: [
      { name: 'lib/copied', content: 'copied' },
      { name: 'lib/copied-too', hardLink: 'lib/copied' },
      { name: 'lib/target', content: 'target' },
      { name: 'lib/becomes-a-file', link: 'target' },
    ],
    noLink: ['lib/copied', 'lib/copied-too', 'lib/becomes-a-file'],
  },
  {
    name: 'names',
    version: '1!2.0+x_1',
    files: [
      { name: 'share/with blank/ä ö ü', content: 'umlauts' },
      { name: 'share/quote\'"$(x)\\', content: 'quotes' },
      { name: 'share/日本語', link: 'with blank/ä ö ü' },
      { name: 'share/Zoë-𝄞', content: 'clef' },
      { name: 'share/Zoë-\uff21', content: 'wide' },
      { name: `share/${'long/'.repeat(19)}file`, content: 'fits into two fields' },
      { name: `share/${'x'.repeat(200)}`, content: 'a long name' },
      { name: `share/${'deep/'.repeat(60)}file`, content: 'a long path' },
      {
        name: `share/${'deep/'.repeat(60)}link`,
        link: `${'../'.repeat(60)}${'deep/'.repeat(60)}file`,
      },
      { name: `share/${'y'.repeat(100)}`, hardLink: `share/${'x'.repeat(200)}` },
      { name: 'share/a-b', content: '' },
      { name: 'share/a/b', content: '' },
      { name: 'share/a.b', content: '' },
    ],
  },
  { name: 'random', version: '1.0', fileMode: 'binary', files: randomFiles(400, 'binary') },
  { name: 'random-texts', version: '1.0', fileMode: 'text', files: randomFiles(400, 'text') },
  { name: 'empty', version: '1.0', files: [] },
  {
    name: 'generic',
    version: '1.0',
    noarch: 'generic',
    files: [{ name: 'share/g', content: 'g' }],
  },
  {
    name: 'old',
    version: '0.9',
    isOld: true,
    format: 'tar.bz2',
    files: [
      { name: 'bin/old tool', content: `#!${placeholder}/bin/sh\n`, mode: 0o755 },
      { name: 'lib/old.so', content: `\0${placeholder}/lib\0` },
      { name: 'lib/link', link: 'old.so' },
      { name: 'lib/copied', content: 'copied' },
    ],
    noLink: ['lib/copied'],
  },
  {
    name: 'older',
    version: '0.1',
    isOld: true,
    format: 'tar.bz2',
    files: [{ name: 'etc/older', content: 'at /opt/anaconda1anaconda2anaconda3/lib' }],
    info: { has_prefix: 'etc/older\n' },
  },
  {
    name: 'scripts',
    version: '1.0',
    files: [
      { name: 'bin/.scripts-pre-unlink.sh', content: '#!/bin/sh\n', mode: 0o755 },
      { name: 'etc/conda/env_vars.d/scripts.json', content: '{"SCRIPTS_DATA": "data"}' },
      { name: 'etc/conda/activate.d/scripts.sh', content: 'export X=1\n' },
    ],
  },
];

/** Python packages, for the Python with a version. */
export function pythonShapes(python: CondaPackage): readonly CondaPackage[] {
  return [
    python,
    {
      name: 'pure',
      version: '2.0',
      noarch: 'python',
      depends: ['python >=3.8'],
      entryPoints: ['pure = pure.main:run', 'pure-class = pure:Tool.start'],
      files: [
        { name: 'site-packages/pure/__init__.py', content: '', mtime: 1_500_000_000 },
        { name: 'site-packages/pure/main.py', content: 'def run():\n    pass\n' },
        { name: 'site-packages/pure-2.0.dist-info/direct_url.json', content: placeholder },
        { name: 'site-packages/link.py', link: 'pure/main.py' },
        {
          name: 'python-scripts/pure-script',
          content: `#!${placeholder}/bin/python\n`,
          mode: 0o755,
        },
        { name: 'share/pure/data', content: 'data' },
      ],
    },
  ];
}
