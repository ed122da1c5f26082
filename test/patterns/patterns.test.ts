/**
 * No regular expression may take more than linear time on a text from outside: 64 KiB of blanks are enough to hold the
 * event loop for seconds.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Literal, literalsIn } from './literals.ts';
import { type SlowText, slowRepeatsOf, slowTextOf } from './super-linear.ts';

const src = join(import.meta.dirname, '../../src');

const builderMessage = 'BuildKit writes the text, and the client shortens it to 8 KiB';
const ownLexer = 'the caller ends at the first token that does not match';

/** Why a pattern that is slow on some text does not meet such a text. */
const exceptions: Readonly<Record<string, readonly (readonly [pattern: RegExp, why: string])[]>> = {
  'buildkit/errors/call-error.ts': [
    [/Dockerfile cannot be empty|target stage .* could not be found/, builderMessage],
    [
      /(?:did not complete successfully|executor failed running .*): exit code: (\d+)/s,
      builderMessage,
    ],
  ],
  'buildkit/files/path-pattern.ts': [
    [/(\*\*\/?)|\[(\^?)((?:\\.|[^\]\\])+)\]|\\(.)|(.)/gsu, 'the first open bracket is an error'],
  ],
  'builds/logs/log-text.ts': [
    [/([0-?]*)[ -/]*([@-~])/y, 'begins after an introducer, which is none of its characters'],
    [/[ -/]*[0-~]/y, 'begins after an introducer, which is none of its characters'],
  ],
  'builds/recipe/conda/package-spec.ts': [
    [/\[.*?\bversion=(['"]?)([^'"\],]*)\1/, 'a specification has one open bracket at most'],
  ],
  'builds/solve/build-fault.ts': [
    [/failed to (?:compute cache key|calculate checksum).*: not found/s, builderMessage],
  ],
  'cli/containers/source/packed-context.ts': [[/[^/]+\/?$/, "a path of the caller's own files"]],
  'images/sif/definition/sections/setup.ts': [
    [
      /(\n)|([ \t\r]+|\\\n|#[^\n]*|[12]?>&[12](?=[\s;]|$))|(&&|\|\||;)|([12]?>>?)|((?:\$\{\w+\}|\\[^\n]|'[^']*'|"(?:\\[\s\S]|[^"\\])*"|[^\s;&|<>()`{}'"\\#]|(?<=\S)#)+)/y,
      ownLexer,
    ],
    [/\\([\s\S])|'([^']*)'|"((?:\\[\s\S]|[^"\\])*)"/g, 'the quotes of a word are closed'],
  ],
  'images/sif/definition/sections/files.ts': [
    [/\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+))(?=\s|$)/y, ownLexer],
  ],
  'upstream/next-page.ts': [
    [/[\s,]*<([^>]*)>/y, ownLexer],
    [/\s*;\s*([^\s"',;=]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*)))?/y, ownLexer],
  ],
  'server/config/effective.ts': [[/(?<=:\/\/)[^/@\s]+@/g, "a setting of the operator's"]],
  'storage/objects/bucket.ts': [[/^\/+|\/+$/g, "a setting of the operator's"]],
  'storage/rows/postgres/postgres-statements.ts': [
    [/'(?:[^']|'')*'|"[^"]*"|@\w+|\?|\b[a-z]+[A-Z]\w*\b/g, 'a statement of Sluice'],
  ],
  'upstream/auth/bearer.ts': [[/[ \t]+[A-Za-z0-9._~+/-]+=*[ \t]*(?=,|$)/y, ownLexer]],
  'upstream/transport/failure.ts': [
    [/\beyJ[\w-]{5,}\.[\w-]*\.?[\w-]*/g, 'the first 4 KiB of a body'],
  ],
};

/** Files that put patterns together. Their parts were tested, or are numbers and names of Sluice. */
const composed: readonly string[] = [
  'builds/logs/log-text.ts',
  'builds/solve/build-fault.ts',
  'conda/channels/channel-address.ts',
  'conda/installing/metadata/listed-path.ts',
  'conda/locks/pixi-entries.ts',
  'conda/locks/read-lock-text.ts',
  'conda/solving/served-subdir.ts',
  'http/route/declaration.ts',
  'oci/reference.ts',
  'platform/built-in/users.ts',
  'platform/grants/token-pairs.ts',
  'platform/remote-platform.ts',
  'upstream/auth/bearer.ts',
];

interface Found extends Literal {
  readonly path: string;
}

const found: readonly Found[] = globSync('**/*.{ts,js}', { cwd: src, exclude: ['buildkit/gen/**'] })
  .toSorted()
  .flatMap(path =>
    literalsIn(readFileSync(join(src, path), 'utf8')).map(literal => ({ path, ...literal })),
  );

const isSame = (one: RegExp, other: RegExp) => String(one) === String(other);

test('every pattern of src takes linear time, or has a reason why it may take more', () => {
  const unused = new Map(
    Object.entries(exceptions).flatMap(([path, list]) =>
      list.map(([pattern]) => [`${path} ${pattern}`, pattern]),
    ),
  );
  const slow = found.flatMap(({ path, line, pattern, isRepeated }) => {
    if (pattern === undefined) return [];
    const text = slowTextOf(pattern) ?? (isRepeated ? slowRepeatsOf(pattern) : undefined);
    if (text === undefined || unused.delete(`${path} ${pattern}`)) return [];
    if (exceptions[path]?.some(([known]) => isSame(known, pattern))) return [];
    return [`src/${path}:${line}: ${pattern} is ${text.growth} on ${shown(text)}`];
  });
  assert.deepEqual(slow, []);
  assert.deepEqual([...unused.keys()], [], 'no such pattern is slow any more');
});

test('patterns are put together in known files only', () => {
  const files = new Set(found.filter(({ pattern }) => !pattern).map(({ path }) => path));
  assert.deepEqual([...files], composed);
});

function shown({ start, pump, end }: SlowText): string {
  return `${JSON.stringify(start)} + many times ${JSON.stringify(pump)} + ${JSON.stringify(end)}`;
}

const slowPatterns = [
  /<[^>]*\?([^>]*)>\s*;\s*rel="?next"?/i,
  /^[ \t]+|[ \t]+$/g,
  /^registry(?:\([^)]*\))?:catalog:(?:.*,)?\*(?:,.*)?$/,
  /:\/\/[^/\s@]*:[^/\s@]*@/,
  /^bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*$/i,
  /a+b/,
  /\d+(?=x)/,
  /"(?:[^"\\]|\\.)*"/,
  /^(a*)*b/,
  /^(a|a)*b/,
  /^(?:[a-z.]+\.)*[a-z]+$/,
];
const fastPatterns = [
  /a+/,
  /^a+b/,
  /^\s+/,
  /^.*$/s,
  /^a*b?.*$/s,
  /"(?:[^"\\]|\\.)*"/y,
  /^(?:[a-z]+\.)*[a-z]+$/,
  /^(?:\d{1,3}){1,5}$/,
  /:\/\/[^/\s@:]*:[^/\s@]*@/,
];

test('the analysis finds slow patterns, and no others', () => {
  for (const pattern of slowPatterns) assert.ok(slowTextOf(pattern), String(pattern));
  for (const pattern of fastPatterns) assert.equal(slowTextOf(pattern), undefined, String(pattern));
  assert.ok(slowRepeatsOf(/a.*b|a/g));
  assert.equal(slowRepeatsOf(/[^\n]+/g), undefined);
});

test('the analysis gives texts on which the number of steps grows', () => {
  const { start = '', pump = '', end = '' } = slowTextOf(/^(a|a)*b/) ?? {};
  assert.deepEqual([start, [...new Set(pump)], end], ['', ['a'], '']);
});

test('literals are found in templates and after operators, and divisions are not', () => {
  const source =
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the template is in the source that is read
    'const a = b / c / `${/d/.test(e) ? 1 : 2}`; f.split(/g+/); new RegExp(`h`); !/i/;';
  const literals = literalsIn(source).map(({ pattern, isRepeated }) => [pattern, isRepeated]);
  assert.deepEqual(literals, [
    [/d/, false],
    [/g+/, true],
    [undefined, false],
    [/i/, false],
  ]);
});
