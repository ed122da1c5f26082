/** Files whose tests run in one process: each keeps its hooks, and one that fails or ends the process is named. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeTempDir } from './world/temp-dir.ts';

const module = JSON.stringify(join(import.meta.dirname, 'world/joined-files.ts'));

/** Runs the texts as test files in one process. */
async function runJoined(texts: Readonly<Record<string, string>>) {
  await using folder = await makeTempDir('joined');
  const begin = `import { after, beforeEach, test } from 'node:test';\n`;
  for (const [name, text] of Object.entries(texts)) {
    await writeFile(folder.join(name), begin + text);
  }
  const names = JSON.stringify(Object.keys(texts));
  await writeFile(
    folder.join('all.mjs'),
    `import { joinFiles } from ${module};joinFiles(${names})`,
  );
  const args = ['--test-reporter=tap', 'all.mjs'];
  // The variable of the run of this file has the child write what only a runner reads.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  return await new Promise<{ code: unknown; text: string }>(resolve => {
    execFile(process.execPath, args, { cwd: folder.path, env }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, text: stdout + stderr }),
    );
  });
}

test('each file keeps its hooks, and the others run after one that fails', async () => {
  const { code, text } = await runJoined({
    'one.mjs': `beforeEach(() => console.error('before each of one'));
      test('first', () => {});
      test('second', () => { throw new Error('broken') });`,
    'two.mjs': `import './absent.mjs'; test('third', () => {});`,
    'three.mjs': `test('fourth', () => {});`,
  });
  assert.equal(code, 1, text);
  assert.equal(text.match(/^before each of one$/gm)?.length, 2);
  assert.match(text, /^ {4}ok 1 - first$/m);
  assert.match(text, /^ {4}not ok 2 - second$/m);
  assert.match(text, /^not ok 1 - one\.mjs$/m);
  assert.match(text, /^not ok 2 - two\.mjs$/m);
  assert.match(text, /Cannot find module '[^']*absent\.mjs'/);
  assert.match(text, /^ {4}ok 1 - fourth$/m);
  assert.doesNotMatch(text, /ended during/);
});

test('a file that ends the process is named', async () => {
  const { code, text } = await runJoined({
    'one.mjs': `test('first', () => {});`,
    'two.mjs': `test('second', () => process.exit(0));`,
    'three.mjs': `test('third', () => {});`,
  });
  assert.equal(code, 1);
  assert.match(text, /The process ended during the tests of two\.mjs; 2 files have not run/);
});
