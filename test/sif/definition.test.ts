import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { baseImagesOf } from '../../src/build/recipe/dockerfile/base-images.ts';
import { parseDockerfile } from '../../src/build/recipe/dockerfile/instructions.ts';
import { Fault } from '../../src/fault.ts';
import { isDefinition, translateDefinition } from '../../src/sif/definition.ts';
import { inspectMetadata } from '../../src/sif/runtime-files.ts';
import { definitionNames, sifFolder, translated } from '../golden/translated.ts';
import { processorMs } from '../world/processor-time.ts';

const header = 'Bootstrap: docker\nFrom: alpine\n';

for (const name of definitionNames()) {
  test(`golden: ${name}`, () => {
    const files = translated(name);
    const there = globSync(`${name}.{Dockerfile,runtime.json}`, { cwd: sifFolder });
    assert.deepEqual([...files.keys()].sort(), there.sort());
    for (const [file, text] of files) {
      assert.equal(text, readFileSync(join(sifFolder, file), 'utf8'), file);
    }
  });
}

test('a definition file is told by its first header', () => {
  for (const text of [
    header,
    `\n# comment\n  BOOTSTRAP : docker`,
    '\ufeffbootstrap:docker',
    'bootstrap: library\r\n',
    '#!/bin/x\nBootstrap: docker',
  ]) {
    assert.ok(isDefinition(text), text);
  }
  for (const text of [
    '',
    'FROM alpine\n',
    `FROM alpine\n${header}`,
    `From: alpine\nBootstrap: docker`,
    '# Bootstrap: docker\nFROM alpine',
    'ARG Bootstrap\n',
    'BootstrapX: docker',
  ]) {
    assert.ok(!isDefinition(text), text);
  }
});

test('what cannot be built is refused with the line and the reason', () => {
  const cases: readonly [string, RegExp][] = [
    ['', /line 1: there is nothing in it/],
    ['From: alpine', /line 1: its first header is not 'Bootstrap:'/],
    ['Bootstrap: docker', /line 1: it does not say which image .* add 'From:'/],
    [
      'Bootstrap: library\nFrom: x',
      /line 1: 'Bootstrap: library' is not supported: .* 'Bootstrap: docker'/,
    ],
    ['\n\nBootstrap: localimage\nFrom: x', /line 3: 'Bootstrap: localimage' is not supported/],
    ['Bootstrap: debootstrap\nMirrorURL: x', /line 1: 'Bootstrap: debootstrap' is not supported/],
    ['Bootstrap: docker\nFrom: Not An Image', /line 2: .*Not An Image/],
    ['Bootstrap: docker\nFrom: $BASE', /line 2: /],
    [`${header}MirrorURL: http://x`, /line 3: 'mirrorurl' is no header of 'Bootstrap: docker'/],
    [`${header}just words`, /line 3: 'just words' is neither a header nor in a section/],
    [`${header}%setup\n touch /x`, /line 3: '%setup' is run by the machine that builds.*'%post'/],
    [`${header}%pre\n touch /x`, /line 3: '%pre' is run by the machine that builds/],
    [
      `${header}\n%appinstall foo\n x`,
      /line 4: '%appinstall' is for apps, which are not supported/,
    ],
    [`${header}%psot\n x`, /line 3: there is no section '%psot'/],
    [`${header}%post\n  cat <<E\n %s\nE`, /line 5: there is no section '%s'/],
    [
      `${header}%files\n /etc/passwd /x`,
      /line 4: '\/etc\/passwd' is a file of the machine that builds/,
    ],
    [`${header}%files\n "/etc/passwd" /x`, /line 4: '\/etc\/passwd' is a file of the machine/],
    [`${header}%files\n ../x /x`, /line 4: '..\/x' has '..' in it/],
    [`${header}%files\n x /a/../b`, /line 4: '\/a\/..\/b' has '..' in it/],
    [`${header}%files\n a b c`, /line 4: 'a b c' is not a source and a destination/],
    [`${header}%files\n $HOME/x /x`, /line 4: '\$HOME\/x' has a character/],
    [`${header}%files\n {a,b} /x`, /line 4: '{a,b}' has a character/],
    [`${header}%files\n a\\b /x`, /line 4: 'a\\b' has a character/],
    [`${header}%files\n a"b" /x`, /line 4: .* has quotes within a name/],
    [`${header}%files\n "" /x`, /line 4: a path is empty/],
    [`${header}%files of x\n a b`, /line 3: '%files of x' is not '%files' or '%files from STAGE'/],
    [`${header}%files from x\n a b`, /line 3: there is no stage 'x' before this one/],
    [`${header}Stage: x\n%files from x\n a b`, /line 4: there is no stage 'x' before this one/],
    [
      `${header}%post\n echo {{ X }}`,
      /line 4: '{{ X }}' has no value: give it one in '%arguments'/,
    ],
    [`${header}%arguments\n no value`, /line 4: 'no value' is no NAME=value/],
    [
      `${header}%post\n# APPTAINER_LABELS\n echo a b >>$APPTAINER_LABELS`,
      /line 5: labels that '%post' writes are not supported: list them in '%labels'/,
    ],
    [`${header}\n${header}%setup`, /line 6: '%setup'/],
  ];
  for (const [text, message] of cases) {
    assert.throws(
      () => translateDefinition(text),
      error => error instanceof Fault && error.status === 400 && message.test(error.message),
      text,
    );
  }
});

test('arguments that multiply are stopped before they fill the memory', () => {
  const value = '{{ B }}'.repeat(50_000);
  const text = `${header}%arguments\nA=${value}\nB=${'x'.repeat(100_000)}\n%post\n{{ A }}\n`;
  assert.throws(() => translateDefinition(text), /longer than 256 KiB/);
  const many = `${header}%arguments\nA=${'x'.repeat(100_000)}\n%post\n${'{{ A }}\n'.repeat(10_000)}`;
  assert.throws(() => translateDefinition(many), /longer than 256 KiB/);
});

test('texts that are hard to read take no long time', () => {
  const long = 300_000;
  for (const text of [
    ' '.repeat(long),
    `${header}%arguments\n${' '.repeat(long)}x`,
    `${header}%arguments\n${'{{'.repeat(long / 2)}`,
    `${header}%post\n${'{{ a'.repeat(long / 4)}`,
    `${header}%post\n${'x'.repeat(long / 2)}# ${'{{ a }}'.repeat(Math.floor(long / 14))}`,
    `${header}%files\n${' '.repeat(long)}"`,
    `${header}%files\n${'a '.repeat(long / 2)}`,
    `${header}%labels\n${' \t'.repeat(long / 2)}x`,
    `${header}%runscript\n${'\n'.repeat(long)}x`,
    `${header}%help\n${'\n'.repeat(long)}x`,
    `${'Bootstrap: docker\n'.repeat(20_000)}`,
  ]) {
    const ms = processorMs(() => {
      try {
        const { runtime: definition } = translateDefinition(text);
        inspectMetadata({ config: {}, architecture: 'amd64', createdAt: 0, definition });
      } catch (error) {
        assert.ok(error instanceof Fault, String(error));
      }
    });
    assert.ok(ms < 10_000, `${text.slice(0, 80)}: ${ms} ms`);
  }
});

const script = fc.array(
  fc.oneof(
    fc.constantFrom(
      'END',
      ' END',
      'EOF',
      'COPY x',
      '\\',
      'FROM evil',
      '# syntax=evil',
      '<<EOF',
      "'",
    ),
    fc.string({ unit: fc.constantFrom(...'END_\r\\"\'$#<% ab') }),
    fc.string(),
  ),
  { minLength: 1 },
);

test('a script goes into the Dockerfile as it is, and nothing of it becomes an instruction', () => {
  fc.assert(
    fc.property(script, body => {
      const lines = body.map(line => `x${line.replace(/\{\{|\n/g, '')}`);
      // The end mark is what could end the script too early.
      const post = `${lines.join('\n')}\n${body.includes('END') ? 'END\nEND_\n' : ''}`;
      const { dockerfile } = translateDefinition(`${header}%post\n${post}`);
      assert.ok(dockerfile.includes(`/post\n${post.replaceAll('\r\n', '\n')}END`), dockerfile);
      const names = parseDockerfile(dockerfile).instructions.map(({ name }) => name);
      assert.deepEqual(names, ['FROM', 'COPY', 'FROM', 'USER', 'RUN']);
      assert.deepEqual(
        baseImagesOf(dockerfile).map(({ reference }) => reference),
        ['docker.io/library/alpine:latest'],
      );
    }),
  );
});

test('any text is translated or refused with a sentence', () => {
  const line = fc.oneof(
    fc.constantFrom(
      ...header.split('\n'),
      '%post',
      '%files',
      '%files from a',
      'Stage: a',
      '%labels',
    ),
    fc.constantFrom(
      '%arguments',
      'A=1',
      '{{ A }}',
      '%environment',
      '%runscript',
      '%help',
      ' a /b/',
    ),
    fc.string(),
    fc.string({ unit: fc.constantFrom(...'%{}:=#"\'/.* \taA') }),
  );
  let translations = 0;
  fc.assert(
    fc.property(fc.array(line, { maxLength: 20 }), lines => {
      const text = `${header}%help\n${lines.join('\n')}`;
      try {
        const { dockerfile } = translateDefinition(text);
        translations += 1;
        assert.ok(baseImagesOf(dockerfile).length > 0);
      } catch (error) {
        assert.ok(error instanceof Fault && error.kind === 'bad-request', String(error));
        assert.match(error.message, /line \d+/);
      }
    }),
    { numRuns: 2000 },
  );
  assert.ok(translations > 100 && translations < 1900, `${translations}`);
});
