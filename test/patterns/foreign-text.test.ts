/** Longest texts of anonymous callers, as far as their limits permit: each is read within the time of one turn. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TarEntry, TarError } from '../../src/archives/tar-entry.ts';
import { awayText } from '../../src/buildkit/errors/call-error.ts';
import { compileGlob } from '../../src/buildkit/files/path-pattern.ts';
import { readEnvironmentFile } from '../../src/builds/recipe/conda/conda-environment.ts';
import { hasCredentials } from '../../src/builds/recipe/text/text-field.ts';
import { explained, unreachable } from '../../src/builds/solve/build-fault.ts';
import { asBaseLost } from '../../src/builds/solve/solve.ts';
import { partsOfSpec } from '../../src/conda/bills/bill.ts';
import { plainBase } from '../../src/conda/channels/channel-address.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { trimEnd, trimStart, withoutSlashes } from '../../src/foundation/text.ts';
import { pullRights } from '../../src/hosted/rights.ts';
import { parseRanges } from '../../src/http/registry/blobs/range.ts';
import { isCatalogScope, parseScope } from '../../src/http/registry/login/token-scope.ts';
import { localBase } from '../../src/images/sif/definition/sections/bootstrap.ts';
import { applyEntry, ImageTree } from '../../src/images/sif/layers/tree.ts';
import { placeKey } from '../../src/pages/builds/recipe/shown-recipe.ts';
import { layerName } from '../../src/request/inspect/layer-files.ts';
import { parseChallenges } from '../../src/upstream/auth/bearer.ts';
import { nextLink } from '../../src/upstream/next-page.ts';
import { framingOf, HeadReader, keepsAlive, WireError } from '../../src/upstream/wire/http1.ts';
import { boundMs } from '../world/longest-block.ts';

const KiB = 1024;
const times = (size: number, text: string) => text.repeat(Math.floor(size / text.length));

function headWith(value: string) {
  const bytes = Buffer.from(`HTTP/1.1 200 OK\r\nconnection: ${value}\r\n\r\n`, 'latin1');
  const { head } = new HeadReader().push(bytes);
  assert.ok(head);
  return head;
}

const digests = Array.from({ length: 7000 }, (_, at) => `sha256:${String(at).padStart(64, '0')}`);

const long: Readonly<Record<string, (() => unknown)[]>> = {
  'a Link header': [
    () => nextLink(times(16 * KiB, '<?')),
    () => nextLink(times(4 * KiB, '<?')),
    () => nextLink(`<a>${times(4000, ' ;a')}`),
    () => nextLink(`<a>;a=${times(4000, '"')}`),
  ],
  'a header of an upstream': [
    () => headWith(`a${times(63 * KiB, ' ')}b`),
    () => keepsAlive(headWith(`a${times(63 * KiB, ' ')}b`)),
    () => keepsAlive(headWith(`a${times(63 * KiB, ' ,')}b`)),
    () =>
      framingOf({
        minor: 1,
        status: 200,
        headers: new Map([['content-length', times(63 * KiB, ',')]]),
      }),
  ],
  'a challenge': [
    () => parseChallenges(times(64 * KiB, 'a ')),
    () => parseChallenges(`a b="${times(64 * KiB, '\\"')}`),
    () => parseChallenges(`a${times(64 * KiB, ' ')}`),
  ],
  'the scopes of a token': [
    () => isCatalogScope(`registry:catalog:${times(64 * KiB, ',*')}\n`),
    () => parseScope(`repository:${times(64 * KiB, ':a')}!`),
  ],
  'the rights of a repository': [
    () => pullRights(['*/a/*/b/*/c'])(times(64 * KiB, '/a/b')),
    () => pullRights(['*a*a*a*a*a*b'])(times(64 * KiB, 'a')),
  ],
  'an address': [
    () => hasCredentials(`://${times(64 * KiB, ':')}`),
    () => hasCredentials(times(64 * KiB, '://a:')),
    () => hasCredentials(times(64 * KiB, 'http://a')),
  ],
  'a Range header': [
    () => parseRanges(`bytes=-${times(16 * KiB, ' ')}x`, 10),
    () => parseRanges(`bytes=${times(16 * KiB, '1')}-`, 10),
    () => parseRanges(`bytes=${times(8 * KiB, '0-,')}`, 10),
    () => parseRanges(`bytes=${times(15 * KiB, ' ')}0-1`, 10),
  ],
  'a channel': [() => plainBase(`a${times(256 * KiB, '/')}a`)],
  'a dependency of a package': [
    () => partsOfSpec(`${times(256 * KiB, 'a')}\n`),
    () => partsOfSpec(`${times(256 * KiB, 'a::')}\n`),
  ],
  'an image on the build machine': [
    ...['a', '/', './', '../'].map(
      part => () =>
        localBase(
          { value: `${times(256 * KiB, part)}/`, line: 1 },
          { ownHost: 'sluice.example.com', hasContext: true },
        ),
    ),
  ],
  'a pattern of .dockerignore': [
    () => compileGlob(times(4 * KiB, '\\[')),
    () => compileGlob(`*[${classOf(4000)}]*[${classOf(4000)}]!`)(times(4 * KiB, 'ab')),
  ],
  'the name of a step': [() => placeKey(`[a${times(256 * KiB, '1')} 1/2`)],
  'a message of a builder': [
    () => explained(times(8 * KiB, 'failed to compute cache key '), '', ''),
    () =>
      asBaseLost(
        new Fault('upstream', times(8 * KiB, 'failed to copy: httpReadSeeker: failed open: ')),
      ),
    () => explained(`source "https://${times(8 * KiB, '@a')}"`, '', ''),
    () => unreachable(times(8 * KiB, '"https://a": dial tcp ')),
    () => unreachable(`"https://${times(8 * KiB, 'a')}"`),
    () => awayText('a', { details: `${times(64 * KiB, 'Last error: (2026-')}` }),
  ],
  'entries of a layer': [linkedEntries(), clearedEntries()],
  'the layers of an image': [() => digests.map((_, at) => layerName(digests, at))],
  'quotes in YAML': [
    () => readEnvironmentFile('condaFile', `dependencies:\n- ${times(250_000, '"')}`),
  ],
};

const entriesOfTurn = 32;

function entry(path: string, kind: TarEntry['kind'], link = ''): TarEntry {
  return { path, kind, mode: 0o644, mtime: 0, size: 0, link };
}

/** Entries below a link to a link to a link, each of which goes to and fro. */
function linkedEntries(): () => void {
  const tree = new ImageTree(1000);
  applyEntry(tree, entry('d', 'directory'), 0, 0);
  for (let at = 0; at < 39; at += 1) {
    const link = entry(`l${at}`, 'symlink', `${'d/../'.repeat(810)}l${at + 1}`);
    applyEntry(tree, link, 0, 0);
  }
  applyEntry(tree, entry('l39', 'directory'), 0, 0);
  return () => {
    for (let at = 0; at < entriesOfTurn; at += 1) {
      assert.throws(() => applyEntry(tree, entry(`l0/f${at}`, 'file'), 0, 0), TarError);
    }
  };
}

/** Entries that clear a directory of many files again and again. */
function clearedEntries(): () => void {
  const tree = new ImageTree(200_000);
  for (let at = 0; at < 100_000; at += 1) applyEntry(tree, entry(`f${at}`, 'file'), 0, 0);
  applyEntry(tree, entry('.wh..wh..opq', 'file'), 0, 0);
  return () => {
    for (let at = 0; at < entriesOfTurn; at += 1) {
      applyEntry(tree, entry('.wh..wh..opq', 'file'), 0, 0);
    }
    assert.ok(tree.root.children?.has('f1'));
  };
}

/** Returns many characters with a gap between each two. */
function classOf(count: number): string {
  return String.fromCharCode(...Array.from({ length: count }, (_, at) => 0x4e00 + 2 * at));
}

for (const [name, works] of Object.entries(long)) {
  test(`no text takes long: ${name}`, () => {
    for (const [at, work] of works.entries()) {
      const most = boundMs(50);
      // Compilation and collection of garbage fall on some run or other.
      let spentMs = spentOn(work);
      for (let tried = 1; tried < 3 && spentMs > most; tried += 1) spentMs = spentOn(work);
      assert.ok(spentMs <= most, `case ${at} takes ${spentMs} ms`);
    }
  });
}

/** Returns the processor time of the work in ms. */
function spentOn(work: () => unknown): number {
  const before = process.threadCpuUsage();
  try {
    work();
  } catch (error) {
    if (!(error instanceof Fault || error instanceof WireError)) throw error;
  }
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

test('the next page is among the links of a header', () => {
  const found: Readonly<Record<string, string | undefined>> = {
    '</v2/a/referrers/b?n=1&last=c>; rel="next"': '/v2/a/referrers/b?n=1&last=c',
    '<https://b.example/v2/?n=1>;rel=next': 'https://b.example/v2/?n=1',
    '<?a>; rel=prev, <?b>; title="a, <?c>; rel=next"; REL="Next"': '?b',
    '<?a>; rel="first next"; rel=prev': '?a',
    '<?a>; rel=prev; rel=next': undefined,
    '<?a> ; anchor = "#b" ; rel = next': '?a',
    '<?a>; rel=nextmost': undefined,
    '<?a>': undefined,
    '<?a': undefined,
    '': undefined,
  };
  for (const [header, address] of Object.entries(found)) {
    assert.equal(nextLink(header), address, header);
  }
  assert.equal(nextLink(undefined), undefined);
  assert.equal(nextLink(`<?${times(4096, 'a')}>; rel=next`), undefined);
});

test('the scope of the catalog lists its actions', () => {
  for (const scope of [
    'registry:catalog:*',
    'registry(a):catalog:pull,*',
    'registry:catalog:*,*',
  ]) {
    assert.ok(isCatalogScope(scope), scope);
  }
  for (const scope of [
    'registry:catalog:pull',
    'registry:catalog:',
    'repository:a:*',
    'registry:catalog:**',
  ]) {
    assert.ok(!isCatalogScope(scope), scope);
  }
});

test('addresses with a password are found, those with a port are not', () => {
  for (const text of ['ftp://a:b@c', 'x://:@c', 'https://a@c', 'x://a:b:c@d', 'a http://b:c@d e']) {
    assert.ok(hasCredentials(text), text);
  }
  for (const text of [
    'ftp://a@c',
    'https://a:80/b@c',
    'ftp://a:80/b:c@d',
    'git@a:b',
    'x://a b:c@d',
  ]) {
    assert.ok(!hasCredentials(text), text);
  }
});

test('stars match any characters, and the texts between them in their order', () => {
  const cases: readonly [pattern: string, name: string, isMatch: boolean][] = [
    ['team/*', 'team/a/b', true],
    ['team/*', 'team', false],
    ['*', '', true],
    ['a*a', 'a', false],
    ['a*a', 'aa', true],
    ['*/dev/*', 'a/dev/b', true],
    ['a*bc*c', 'abc', false],
    ['a*bc*c', 'abcbc', true],
    ['a.b', 'axb', false],
    ['a', 'ab', false],
  ];
  for (const [pattern, name, isMatch] of cases) {
    assert.equal(pullRights([pattern])(name).length > 0, isMatch, `${pattern} ${name}`);
  }
});

test('only characters of the kind are trimmed, at the ends', () => {
  const isBlank = (character: string) => character === ' ';
  assert.equal(trimEnd(trimStart('  a b\t ', isBlank), isBlank), 'a b\t');
  assert.equal(trimEnd('   ', isBlank), '');
  assert.equal(withoutSlashes('/a//b//'), '/a//b');
});

test('the last error of grpc-js is taken out of its message', () => {
  const reasonOf = (details: string) => awayText('a', { details });
  const around = (text: string) => `No connection. Last error: ${text}. Resolution note: b`;
  const plain = 'The builder at a is unavailable: connect ECONNREFUSED 127.0.0.1:1';
  assert.equal(
    reasonOf(around('Error: connect ECONNREFUSED 127.0.0.1:1 (2026-01-01T00:00:00)')),
    plain,
  );
  assert.equal(reasonOf(around('connect ECONNREFUSED 127.0.0.1:1')), plain);
  assert.equal(reasonOf('connect ECONNREFUSED 127.0.0.1:1'), plain);
});
