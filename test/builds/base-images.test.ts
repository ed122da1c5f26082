// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is Dockerfiles that have them
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type BaseImageOptions,
  baseImagesOf,
} from '../../src/builds/recipe/dockerfile/base-images.ts';
import { frontendImage } from '../../src/builds/recipe/dockerfile/frontend-image.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { codePoint } from '../world/code-points.ts';
import { processorMs } from '../world/processor-time.ts';
import { dockerfiles } from './dockerfiles.ts';

/** Returns the images in short form: the line, the use if it is not FROM, the name without its common part. */
function imagesOf(text: string, options?: BaseImageOptions): string[] {
  return baseImagesOf(text, options).map(({ reference, line, use }) =>
    [
      line,
      ...(use === 'FROM' ? [] : [use]),
      reference.replace(/^docker\.io\/(?:library\/)?/, ''),
    ].join(' '),
  );
}

// The expected images were compared with the parser of BuildKit 0.32.2.
for (const [what, { text, images, options }] of Object.entries(dockerfiles)) {
  test(`images: ${what}`, () => {
    assert.deepEqual(imagesOf(text, options), images);
  });
}

const refused: readonly [what: string, text: string, message: RegExp][] = [
  ['nothing', '', /line 1: it has no FROM/],
  ['only comments', '# a\n\n', /line 1: it has no FROM/],
  ['an instruction before FROM', '\nRUN x\nFROM a\n', /line 2: RUN comes before the first FROM/],
  ['an unknown instruction', 'FROM a\nFORM b\n', /line 2: 'FORM' is not an instruction/],
  ['FROM without image', 'FROM\n', /line 1: 'FROM'|line 1: FROM requires/],
  ['FROM with two words', 'FROM a b\n', /line 1: FROM requires an image/],
  ['FROM with four words', 'FROM a AS b c\n', /line 1: FROM requires an image/],
  ['a bad stage name', 'FROM a AS 1a\n', /line 1: '1a' is not the name of a stage/],
  ['a variable that is not set', 'FROM $BASE\n', /line 1: '\$BASE' is empty: give ARG a default/],
  ['a tag that is not set', 'ARG V\nFROM a:$V\n', /line 2: 'a:\$V' has a variable without a value/],
  ['a variable of a stage', 'FROM a\nARG B=b\nFROM $B\n', /line 3: '\$B' is empty/],
  ['a variable that is required', 'FROM ${B:?needed}\n', /line 1: B: needed/],
  ['an unclosed substitution', 'FROM ${B\n', /line 1: /],
  ['an unknown operator', 'ARG A=b\nFROM ${A^^}\n', /line 2: a substitution has the operator '\^'/],
  ['an unclosed quote', 'ARG A="b\nFROM a\n', /line 1: a double quote is not closed/],
  ['a name in capital letters', 'FROM a\nFROM Alpine\n', /line 2: .*lower case/],
  ['a digest that is none', 'FROM a@sha256:12\n', /line 1: .*is not a digest/],
  [
    'a here-document without end',
    'FROM a\n\nRUN <<EOF\nx\n',
    /line 3: the here-document 'EOF' has no end/,
  ],
  [
    'two escape directives',
    '# escape=`\n# escape=`\nFROM a\n',
    /line 2: the directive 'escape' is given twice/,
  ],
  ['a wrong escape character', '# escape=x\nFROM a\n', /line 1: the escape character can only be/],
  [
    'a variable in COPY --from',
    'FROM a\nCOPY --from=$B x y\n',
    /line 2: COPY --from=\$B contains a variable/,
  ],
  [
    'a variable in a mount',
    'FROM a\nRUN --mount=from=$B,target=/x y\n',
    /line 2: RUN --mount=from=\$B contains a variable/,
  ],
  ['a stage that does not exist', 'FROM a\nCOPY --from=3 x y\n', /line 2: .*numbered from 0 to 0/],
  ['quotes in a mount', "FROM a\nRUN --mount='\"from=b' x\n", /line 2: a quote in --mount/],
  ['a list with numbers', 'FROM a\nRUN ["<<x", 1]\n', /line 2: a JSON list/],
  ['ARG without name', 'ARG =a\nFROM a\n', /line 1: ARG requires a name/],
  ['ONBUILD ONBUILD', 'FROM a\nONBUILD ONBUILD RUN x\n', /line 2: ONBUILD cannot trigger/],
];

for (const [what, text, message] of refused) {
  test(`refused with the line: ${what}`, () => {
    assert.throws(
      () => baseImagesOf(text),
      (error: unknown) => {
        assert.ok(error instanceof Fault, String(error));
        assert.equal(error.kind, 'bad-request');
        assert.match(error.message, message);
        return true;
      },
    );
  });
}

test('a missing target is reported', () => {
  assert.throws(
    () => baseImagesOf('FROM a AS b\n', { target: 'c' }),
    /the stage 'c' does not exist/,
  );
});

test('the frontend of a file is found in every form that BuildKit accepts', () => {
  const found = (text: string) => frontendImage(text)?.reference;
  assert.equal(found('# syntax=docker/dockerfile:1\nFROM a\n'), 'docker/dockerfile:1');
  assert.equal(found('#!/usr/bin/x\n# check=y\n# Syntax = a/b --opt\nFROM a\n'), 'a/b');
  assert.equal(found('// syntax=a/b\n'), 'a/b');
  assert.equal(found('{"syntax": "a/b"}'), 'a/b');
  assert.equal(found('\n# syntax=a/b\n'), undefined);
  assert.equal(found('# a comment\n# syntax=a/b\n'), undefined);
  assert.equal(found('FROM a\n'), undefined);
});

test('any file is read or refused with a sentence', () => {
  const pieces = fc.constantFrom(
    'FROM ',
    'alpine',
    ' AS ',
    'b',
    '\n',
    '\\\n',
    '\r\n',
    'ARG ',
    '=',
    '$A',
    '${A',
    ':-',
    '}',
    '"',
    "'",
    '#',
    'COPY ',
    '--from=',
    'RUN ',
    '--mount=',
    'from=',
    ',',
    '<<',
    'EOF',
    ' ',
    '\\',
    '`',
    '# escape=`\n',
    'ONBUILD ',
    '[',
    ']',
    '%',
    '/',
    '*',
    'é',
    '\u00a0',
    '\ufeff',
    '{"syntax":',
  );
  const texts = fc.oneof(
    fc.string({ unit: codePoint }),
    fc.array(pieces, { maxLength: 40 }).map(some => `FROM a\n${some.join('')}`),
    fc.array(pieces, { maxLength: 40 }).map(some => some.join('')),
  );
  fc.assert(
    fc.property(texts, text => {
      try {
        for (const { reference } of baseImagesOf(text)) assert.match(reference, /^[^/]+\/.+[:@]/);
      } catch (error) {
        assert.ok(error instanceof Fault, String((error as Error).stack));
        assert.match(error.message, /^The Dockerfile, line \d+: ./);
      }
    }),
    { numRuns: 1000 },
  );
});

test('files that are expensive to read are read or refused at once', () => {
  const times = (text: string, count: number) => text.repeat(count);
  const doubling = Array.from({ length: 60 }, (_, at) => `ARG A${at + 1}=$A${at}$A${at}`).join(
    '\n',
  );
  const files = [
    `ARG A0=xxxx\n${doubling}\nFROM $A60\n`,
    `ARG A=${times('a', 50_000)}\n${times('ARG B=${A//*a*a*a*b/c}\n', 200)}FROM a\n`,
    `FROM a\nRUN ${times('${x:-', 100_000)} <<EOF\n`,
    `FROM ${times('${x:-', 100_000)}\n`,
    `FROM a\n${times('ONBUILD ', 100_000)}\n`,
    `FROM a\nRUN x${times(' ', 500_000)}y\n`,
    `FROM a\nRUN x${times('\r', 500_000)}y\n`,
    `# escape=${times(' ', 500_000)}y\nFROM a\n`,
    `FROM a\nCOPY --from=${times('9', 500_000)} a b\n`,
    `FROM a\n${times('RUN <<E <<E\n', 50_000)}`,
    `FROM a\nRUN --mount=${times('"",', 100_000)}from=b x\n`,
    `FROM a AS s0\n${Array.from({ length: 20_000 }, (_, at) => `FROM s${at} AS s${at + 1}`).join('\n')}\n`,
  ];
  for (const file of files) {
    const ms = processorMs(() => {
      try {
        baseImagesOf(file);
      } catch (error) {
        assert.ok(error instanceof Fault, String(error));
      }
    });
    assert.ok(ms < 1500, `${file.slice(0, 40)}: ${ms} ms`);
  }
});
