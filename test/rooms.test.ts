import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { test } from 'node:test';

const project = join(import.meta.dirname, '..');
const src = join(project, 'src');

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

/** Returns the files that an import of the file loads: without types and dynamic imports. */
function loadedBy(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  const pattern = /(?:^|\n)(?:import|export)\s(?!type\s)[^;'"]*?from\s+['"]([^'"]+)['"]/g;
  return [...text.matchAll(pattern)].map(match => match[1] ?? '');
}

function importedFiles(path: string): string[] {
  return importsOf(join(src, path))
    .filter(specifier => specifier.startsWith('.'))
    .map(specifier => join(dirname(path), specifier));
}

/** Returns the first circle in a graph of imports, from a file back to it; empty without a circle. */
function circleIn(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const done = new Set<string>();
  const way: string[] = [];
  const walk = (path: string): string[] => {
    if (done.has(path)) return [];
    const start = way.indexOf(path);
    if (start >= 0) return [...way.slice(start), path];
    way.push(path);
    for (const next of graph.get(path) ?? []) {
      const circle = walk(next);
      if (circle.length > 0) return circle;
    }
    way.pop();
    done.add(path);
    return [];
  };
  for (const path of graph.keys()) {
    const circle = walk(path);
    if (circle.length > 0) return circle;
  }
  return [];
}

/** Rooms that others import through their public interfaces only. */
const standAlone: Readonly<Record<string, readonly string[]>> = {
  'buildkit/': ['buildkit/index.ts', 'buildkit/files/index.ts', 'buildkit/session/ssh/index.ts'],
};

/** Returns the violation of one import, or undefined. */
function complaint(rooms: readonly Room[], path: string, specifier: string): string | undefined {
  const own = roomOf(rooms, path);
  if (specifier.startsWith('.')) {
    const target = relative(src, join(src, dirname(path), specifier));
    const other = roomOf(rooms, target);
    const doors = standAlone[rooms[other]?.name ?? ''];
    if (other !== own && doors && !doors.includes(target)) {
      return `${path} may not import ${target}, only ${doors.join(' or ')}`;
    }
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
  const homeless = globSync('**/*.ts', { cwd: src }).filter(path => roomOf(rooms, path) < 0);
  assert.deepEqual(homeless, []);
});

test('every import stays within its room and those above, and within its packages', () => {
  const rooms = readRooms();
  const complaints = globSync('**/*.ts', { cwd: src }).flatMap(path =>
    importsOf(join(src, path))
      .map(specifier => complaint(rooms, path, specifier))
      .filter(found => found !== undefined),
  );
  assert.deepEqual(complaints, []);
});

test('the test finds violations of the rule', () => {
  const rooms = readRooms();
  assert.match(complaint(rooms, 'oci/digest.ts', '../http/observe.ts') ?? '', /oci\/digest\.ts/);
  assert.match(complaint(rooms, 'images/augment/env.ts', 'undici') ?? '', /undici/);
  assert.equal(complaint(rooms, 'http/observe.ts', '../foundation/fault.ts'), undefined);
  const behind = complaint(rooms, 'builds/builds.ts', '../buildkit/build.ts');
  assert.match(behind ?? '', /only buildkit\/index\.ts/);
});

test('importing the BuildKit client does not load gRPC', () => {
  const packages = new Set<string>();
  const seen = new Set<string>();
  const walk = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const specifier of loadedBy(file)) {
      if (specifier.startsWith('.')) walk(join(dirname(file), specifier));
      else if (!specifier.startsWith('node:')) packages.add(specifier);
    }
  };
  walk(join(src, 'buildkit/index.ts'));
  assert.ok(seen.size > 10);
  assert.deepEqual([...packages], []);
});

test('no imports go in a circle, type imports included', () => {
  const graph = new Map(
    globSync('**/*.ts', { cwd: src }).map(path => [path, importedFiles(path)] as const),
  );
  assert.deepEqual(circleIn(graph), []);
});

test('the search for circles finds one', () => {
  const graph = new Map([
    ['a.ts', ['b.ts']],
    ['b.ts', ['c.ts', 'd.ts']],
    ['c.ts', []],
    ['d.ts', ['b.ts']],
  ]);
  assert.deepEqual(circleIn(graph), ['b.ts', 'd.ts', 'b.ts']);
});

test('no two files have the same name', () => {
  const paths = globSync('**/*.ts', { cwd: src, exclude: ['buildkit/gen/**'] });
  // An index.ts is the public interface of its room.
  const others = paths.filter(path => basename(path) !== 'index.ts');
  const twice = Object.entries(Object.groupBy(others, path => basename(path)))
    .filter(([, same]) => same !== undefined && same.length > 1)
    .map(([, same]) => same);
  assert.deepEqual(twice, []);
});

test('no file is longer than 500 lines', () => {
  const long = globSync('{src,test,scripts,bench}/**/*.ts', { cwd: project }).filter(
    path => readFileSync(join(project, path), 'utf8').split('\n').length > 500,
  );
  assert.deepEqual(long, []);
});
