/** The code generated from proto/ matches the output of `npm run proto`. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { makeTempDir } from '../world/temp-dir.ts';

const project = join(import.meta.dirname, '../..');
const folder = 'src/buildkit/gen';

test('the generated code is up to date', async () => {
  await using directory = await makeTempDir('proto');
  // npm puts the project's Node, on which the plugin runs, into the PATH.
  await promisify(execFile)('npm', ['run', 'proto', '--', '--output', directory.path], {
    cwd: project,
  });
  const [made, kept] = await Promise.all([
    contents(join(directory.path, folder)),
    contents(join(project, folder)),
  ]);
  assert.ok(made.size > 0);
  assert.deepEqual(kept, made, "run 'npm run proto'");
});

async function contents(root: string): Promise<Map<string, string>> {
  const files = globSync('**/*.{js,ts}', { cwd: root }).sort();
  const texts = await Promise.all(files.map(file => readFile(join(root, file), 'utf8')));
  return new Map(files.map((file, index) => [file, texts[index] ?? '']));
}
