import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { runProgram } from '../../world/program.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { requireCommand, requireConda, requireCondaReaders } from '../../world/tools.ts';

/** Returns what the program that a document is for has found in it. */
export async function readDocument(
  reader: 'pixi' | 'conda-lock' | 'spdx',
  text: string,
): Promise<unknown> {
  await using folder = await makeTempDir('document');
  const file = join(folder.path, 'document.json');
  await writeFile(file, text);
  const modules = [join(requireConda(), 'rattler'), requireCondaReaders()].join(delimiter);
  const { code, stdout, stderr } = await runProgram(
    [requireCommand('python3'), join(import.meta.dirname, 'readers.py'), reader, file],
    { env: { ...process.env, PYTHONPATH: modules, PYTHONDONTWRITEBYTECODE: '1' } },
  );
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}
