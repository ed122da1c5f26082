import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { translateDefinition } from '../../src/images/sif/definition/definition.ts';

export const sifFolder = join(import.meta.dirname, 'sif');

/** The files that a definition file of the folder is translated to, text by name. */
export function translated(name: string): ReadonlyMap<string, string> {
  const text = readFileSync(join(sifFolder, `${name}.def`), 'utf8');
  const { dockerfile, runtime } = translateDefinition(text);
  return new Map([
    [`${name}.Dockerfile`, dockerfile],
    [`${name}.runtime.json`, `${JSON.stringify(runtime, undefined, 2)}\n`],
  ]);
}

/** Names of the definition files in the folder. */
export function definitionNames(): readonly string[] {
  return globSync('*.def', { cwd: sifFolder })
    .map(file => basename(file, '.def'))
    .sort();
}
