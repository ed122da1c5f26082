/** Logs and recipes that are made to hold up whoever shows them. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createBuildLogs } from '../../src/builds/logs/build-logs.ts';
import { stepNames } from '../../src/pages/builds/build-state.ts';
import { foldsOf, foldsPart, linesAtOnce, linesPart } from '../../src/pages/builds/log-part.ts';
import { recipePart } from '../../src/pages/builds/recipe/recipe-part.ts';
import { loggedSteps } from '../../src/pages/builds/recipe/shown-recipe.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const steps = 6;
const logOf = (output: string) =>
  Array.from({ length: 1200 }, (_, at) => `#${5 + (at % steps)} 0.1 ${output}\n`).join('');
const changes = (one: (at: number) => string) => Array.from({ length: 700 }, (_, at) => one(at));

const bombs: Readonly<Record<string, string>> = {
  'one line of 10 MB': `#5 0.1 ${'x'.repeat(10_000_000)}\n#5 0.2 after it\n`,
  '100,000 changes of colour in a line': `#5 0.1 ${Array.from({ length: 100_000 }, (_, at) => `\u001b[${31 + (at % 6)}mx`).join('')}\n`,
  'a change of colour for each character': logOf(
    changes(at => `\u001b[${31 + (at % 6)}mx`).join(''),
  ),
  'true colours': logOf(
    changes(at => `\u001b[1;4;38;2;${at % 256};1;2;48;2;5;${at % 256};1mx`).join(''),
  ),
  'characters that are longer in HTML': logOf('"'.repeat(3900)),
  'characters that are hidden': logOf('\u202e'.repeat(1300)),
  'nine million lines': `#5 0.1 x\n${'\n'.repeat(9_000_000)}`,
  'a step for each line': Array.from({ length: 100_000 }, (_, at) => `#${at} 0.1 x\n`).join(''),
};

suite('logs that are made to hold up whoever shows them', () => {
  for (const [name, text] of Object.entries(bombs)) {
    test(`${name}: a page of the log is light, and made without holding up others`, async t => {
      await using directory = await makeTempDir('logs');
      const logs = createBuildLogs(directory.path);
      const writer = logs.begin('one');
      for (let at = 0; at < text.length; at += 16_384) {
        writer.write(text.slice(at, at + 16_384));
        await writer.written();
      }
      await writer.end();

      let bytes = 0;
      const noteSize = (shown: object) => {
        bytes = Math.max(bytes, Buffer.byteLength(shown.toString()));
      };
      // The code of the page is loaded.
      linesPart([{ number: 1, text: 'x', coloured: '\u001b[31mx\u001b[0m', isCut: false }]);
      const { cpuMs } = await longestBlock(async () => {
        const lines = await logs.lines('one');
        assert.ok(lines);
        noteSize(linesPart(await lines.read(lines.total - linesAtOnce, lines.total)));
        await lines.search('nowhere', 200);
        const running = loggedSteps(lines.steps).map(step => {
          return { ...step, state: 'running' } as const;
        });
        const folds = await foldsOf({ steps: running, lines }, undefined);
        await new Promise(resolve => setImmediate(resolve));
        noteSize(foldsPart({ id: 'one', state: 'running' }, folds));
      });
      t.diagnostic(`${bytes} bytes, ${cpuMs.toFixed(1)} ms`);
      assert.ok(bytes < 1_000_000, `${bytes} bytes`);
      assert.ok(cpuMs < boundMs(50), `${cpuMs} ms`);
    });
  }

  test('lines that are long together show their beginnings, and a long line alone more of itself', () => {
    const line = (number: number, length: number) => {
      const text = 'x'.repeat(length);
      return { number, text, coloured: text, isCut: false };
    };
    const shownOf = (lines: readonly { readonly text: string }[]) =>
      [
        ...linesPart(lines as never)
          .toString()
          .matchAll(/<span>(x*)(…?)/g),
      ].map(([, text = '', cut]) => `${text.length}${cut}`);
    assert.deepEqual(shownOf([line(1, 1900), line(2, 3000)]), ['1900', '2000…']);
    const many = Array.from({ length: 300 }, (_, at) => line(at, at === 0 ? 20 : 3000));
    const [short, ...others] = shownOf(many);
    assert.equal(short, '20');
    assert.deepEqual(new Set(others), new Set(['250…']));
  });
});

suite('recipes that are made to be heavy', () => {
  test('recipes, files and names of steps as long as they may be are a light part of the page', () => {
    const text = '"'.repeat(1000);
    const lines = Array.from({ length: 600 }, () => {
      return { text, isFailed: false, step: undefined, layerBytes: undefined };
    });
    const others = Array.from({ length: 20 }, (_, at) => [`${at}`, text.repeat(20)] as const);
    const recipe = recipePart({ title: 'Dockerfile', lines, others, facts: [] }).toString();
    assert.ok(recipe.length < 800_000, `${recipe.length} characters`);
    assert.match(recipe, /The recipe has 600 lines: the first 60 are shown\./);
    assert.match(recipe, /17 more files are not shown\./);

    const nameOf = stepNames(Array.from({ length: 500 }, () => ({ name: text })));
    assert.equal(nameOf(text), `${'"'.repeat(80)}…`);
    assert.equal(stepNames([{ name: text }])(text), text);
  });
});
