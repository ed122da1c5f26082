import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';

const project = join(import.meta.dirname, '..');

interface Room {
  readonly name: string;
  readonly packages: readonly string[];
}

/** The rooms of docs/architecture.md, top first. */
function readRooms(): Room[] {
  const text = readFileSync(join(project, 'docs/architecture.md'), 'utf8');
  const table = text.slice(text.indexOf('| room |'), text.indexOf('## State'));
  return [...table.matchAll(/^\| `([^`]+)` \|[^|]*\|([^|]*)\|$/gm)].map(
    ([, name = '', list = '']) => ({
      name,
      packages: list
        .split(',')
        .map(entry => entry.trim())
        .filter(entry => entry !== ''),
    }),
  );
}

function roomOf(rooms: readonly Room[], path: string): number {
  return rooms.findIndex(({ name }) =>
    name.endsWith('/') ? path.startsWith(name) : path === name,
  );
}

function importsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  const pattern =
    /(?:^|\n)\s*(?:import|export)\s[^;'"]*?from\s+['"]([^'"]+)['"]|import\(?\s*['"]([^'"]+)['"]/g;
  return [...text.matchAll(pattern)].map(match => match[1] ?? match[2] ?? '');
}

/** What is wrong with one import, or undefined. */
function complaint(rooms: readonly Room[], path: string, specifier: string): string | undefined {
  const own = roomOf(rooms, path);
  if (specifier.startsWith('.')) {
    const target = relative(join(project, 'src'), join(project, 'src', dirname(path), specifier));
    const other = roomOf(rooms, target);
    return other >= 0 && other <= own ? undefined : `${path} may not import ${target}`;
  }
  if (specifier.startsWith('node:') || builtinModules.includes(specifier)) return undefined;
  const name = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
  const isAllowed = rooms[own]?.packages.includes(name);
  return isAllowed ? undefined : `${path} may not use the package ${name}`;
}

test('the table names every file of src', () => {
  const rooms = readRooms();
  const homeless = globSync('**/*.ts', { cwd: join(project, 'src') }).filter(
    path => roomOf(rooms, path) < 0,
  );
  assert.deepEqual(homeless, []);
});

test('every import stays within its room and those above, and within its packages', () => {
  const rooms = readRooms();
  const complaints = globSync('**/*.ts', { cwd: join(project, 'src') }).flatMap(path =>
    importsOf(join(project, 'src', path))
      .map(specifier => complaint(rooms, path, specifier))
      .filter(found => found !== undefined),
  );
  assert.deepEqual(complaints, []);
});

test('the rule finds what it forbids', () => {
  const rooms = readRooms();
  assert.match(complaint(rooms, 'oci/digest.ts', '../http/range.ts') ?? '', /oci\/digest\.ts/);
  assert.match(complaint(rooms, 'augment/env.ts', 'undici') ?? '', /undici/);
  assert.equal(complaint(rooms, 'http/range.ts', '../fault.ts'), undefined);
});

test('no file is longer than 400 lines', () => {
  const long = globSync('{src,test,scripts,bench}/**/*.ts', { cwd: project }).filter(
    path => readFileSync(join(project, path), 'utf8').split('\n').length > 400,
  );
  assert.deepEqual(long, []);
});
