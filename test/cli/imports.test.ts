/** The packages that a command loads: the command line alone installs without those of the server. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';

const src = join(import.meta.dirname, '../../src');

interface Imports {
  /** Files and packages that are loaded with a file. */
  readonly early: readonly string[];
  /** Files that it loads when it needs them. */
  readonly late: readonly string[];
}

/** The imports of a file that remain when its types are stripped. */
function importsOf(file: string): Imports {
  const text = readFileSync(file, 'utf8');
  const early = [...text.matchAll(/^(?:import|export)\s([^;'"]*?)\s?from '([^']+)'/gm)]
    .filter(([, names = '']) => !names.startsWith('type '))
    .map(([, , specifier = '']) => specifier);
  const late = [...text.matchAll(/\bimport\('([^']+)'\)/g)].map(([, specifier = '']) => specifier);
  return { early, late };
}

/** The files and packages that are loaded with a file, and what those files load later. */
function loadedWith(start: string): {
  files: Set<string>;
  packages: Set<string>;
  late: Set<string>;
} {
  const [files, packages, late] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const walk = (file: string): void => {
    if (files.has(file)) return;
    files.add(file);
    const imports = importsOf(file);
    for (const specifier of imports.late) late.add(join(dirname(file), specifier));
    for (const specifier of imports.early) {
      if (specifier.startsWith('.')) walk(join(dirname(file), specifier));
      else if (!specifier.startsWith('node:')) packages.add(specifier);
    }
  };
  walk(start);
  return { files, packages, late };
}

const cli = join(src, 'cli');
// The packages that a command line without a server may load; a terminal needs no others.
const allowed: readonly string[] = [];

const declarations = [...loadedWith(join(cli, 'commands.ts')).late];

test('the declarations of all commands load no part of the server', () => {
  assert.ok(declarations.length > 15);
  for (const start of [join(cli, 'main.ts'), ...declarations]) {
    assert.ok(existsSync(start), start);
    const { files, packages } = loadedWith(start);
    const name = relative(cli, start);
    assert.deepEqual(
      [...packages].filter(used => !allowed.includes(used)),
      [],
      name,
    );
    const foreign = [...files].filter(file =>
      /^(storage|server\/(?!config\/duration)|hosted|upstream|platform|pull|builds)/.test(
        relative(src, file),
      ),
    );
    assert.deepEqual(
      foreign.map(file => relative(src, file)),
      [],
      name,
    );
  }
});

test('the code for data directories is loaded when it runs', () => {
  const starts = [join(cli, 'main.ts'), ...declarations];
  const late = new Set(starts.flatMap(start => [...loadedWith(start).late]));
  const names = [...late].map(file => relative(cli, file)).sort();
  for (const name of ['data/run-gc.ts', 'people/local-platform.ts', 'containers/print-name.ts']) {
    assert.ok(names.includes(name), names.join());
  }
});
