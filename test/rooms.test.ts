import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { test } from 'node:test';

const project = join(import.meta.dirname, '..');
const src = join(project, 'src');

interface Room {
  readonly name: string;
  /** The files that other rooms may import. */
  readonly doors: readonly string[];
  readonly packages: readonly string[];
}

/** The rooms of docs/architecture.md, top first. */
function readRooms(): Room[] {
  const text = readFileSync(join(project, 'docs/architecture.md'), 'utf8');
  const table = text.slice(text.indexOf('| room |'), text.indexOf('## State'));
  return [...table.matchAll(/^\| `([^`]+)` \|[^|]*\|([^|]*)\|([^|]*)\|$/gm)].map(
    ([, name = '', doors = '', packages = '']) => ({
      name,
      doors: entriesOf(doors).map(door => join(name, door.replaceAll('`', ''))),
      packages: entriesOf(packages),
    }),
  );
}

function entriesOf(cell: string): string[] {
  return cell
    .split(',')
    .map(entry => entry.trim())
    .filter(entry => entry !== '');
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

/** Returns all files and packages that are loaded with a file. */
function loadedWith(start: string): { files: Set<string>; packages: Set<string> } {
  const files = new Set<string>();
  const packages = new Set<string>();
  const walk = (file: string): void => {
    if (files.has(file)) return;
    files.add(file);
    for (const specifier of loadedBy(file)) {
      if (specifier.startsWith('.')) walk(join(dirname(file), specifier));
      else if (!specifier.startsWith('node:')) packages.add(specifier);
    }
  };
  walk(start);
  return { files, packages };
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

/** Returns the violation of one import, or undefined. */
function complaint(rooms: readonly Room[], path: string, specifier: string): string | undefined {
  const own = roomOf(rooms, path);
  if (specifier.startsWith('.')) {
    const target = relative(src, join(src, dirname(path), specifier));
    const other = roomOf(rooms, target);
    if (other < 0 || other > own) return `${path} may not import ${target}`;
    const doors = rooms[other]?.doors ?? [];
    if (other === own || doors.includes(target)) return undefined;
    return `${path} may not import ${target}, only a door: ${doors.join(' or ')}`;
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

test('every import stays within its room and the doors of those above, and within its packages', () => {
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
  assert.match(complaint(rooms, 'images/augment/image-config.ts', 'undici') ?? '', /undici/);
  assert.equal(complaint(rooms, 'http/observe.ts', '../foundation/fault.ts'), undefined);
  const behind = complaint(rooms, 'builds/builds.ts', '../buildkit/build.ts');
  assert.match(behind ?? '', /only a door: buildkit\/index\.ts/);
  assert.match(
    complaint(rooms, 'pull/image-finder.ts', '../images/publish.ts') ?? '',
    /only a door/,
  );
  assert.equal(complaint(rooms, 'images/mirror.ts', './publish.ts'), undefined);
});

/** Returns the names that imports and exports of a file take from other files of src, with the file. */
function namesTaken(path: string): { readonly from: string; readonly names: readonly string[] }[] {
  const text = readFileSync(join(src, path), 'utf8');
  const pattern = /^(?:import|export) (?:type )?\{([^}]*)\} from '(\.[^']+)';$/gm;
  return [...text.matchAll(pattern)].map(([, list = '', specifier = '']) => ({
    from: join(dirname(path), specifier),
    names: entriesOf(list).map(entry => entry.replace(/^type /, '').replace(/ as .*/, '')),
  }));
}

/** Returns whether a file only passes on what other files of its room export. */
function passesOn(path: string): boolean {
  const text = readFileSync(join(src, path), 'utf8');
  return (
    text.replace(/\/\*\*[\s\S]*?\*\/|^export (?:type )?\{[^}]*\} from '[^']+';$/gm, '').trim() ===
    ''
  );
}

test('a door exists, and passes on exactly what other rooms use', () => {
  const rooms = readRooms();
  const paths = globSync('**/*.ts', { cwd: src });
  const doors = rooms.flatMap(room => room.doors);
  assert.deepEqual(
    doors.filter(door => !paths.includes(door)),
    [],
  );
  const used = new Set<string>();
  const crossed = new Set<string>();
  for (const path of paths) {
    for (const target of importedFiles(path)) {
      if (roomOf(rooms, target) !== roomOf(rooms, path)) crossed.add(target);
    }
    for (const { from, names } of namesTaken(path)) {
      if (roomOf(rooms, from) === roomOf(rooms, path)) continue;
      for (const name of names) used.add(`${from} ${name}`);
    }
  }
  // Packages export these rooms too.
  const isPublic = (door: string) => /^(?:oci|buildkit)\//.test(door);
  assert.deepEqual(
    doors.filter(door => !crossed.has(door)),
    [],
  );
  const useless = doors
    .filter(door => passesOn(door) && !isPublic(door))
    .flatMap(door => namesTaken(door).flatMap(({ names }) => names.map(name => `${door} ${name}`)))
    .filter(name => !used.has(name));
  assert.deepEqual(useless, []);
});

test('a thread and the declaration of a command load few files', () => {
  const starts = globSync('{**/*-worker.ts,cli/**/*-command{,s}.ts}', { cwd: src });
  assert.ok(starts.length > 20);
  const many = starts
    .map(path => ({ path, files: loadedWith(join(src, path)).files.size }))
    .filter(({ files }) => files > 72);
  assert.deepEqual(many, []);
});

test('importing the BuildKit client does not load gRPC', () => {
  const { files, packages } = loadedWith(join(src, 'buildkit/index.ts'));
  assert.ok(files.size > 10);
  assert.deepEqual([...packages], []);
});

test('no imports go in a circle, type imports included', () => {
  const graph = new Map(
    globSync('**/*.ts', { cwd: src }).map(path => [path, importedFiles(path)] as const),
  );
  assert.deepEqual(circleIn(graph), []);
});

/** Returns the room of a file with the folder in it; the room alone for a file at its root. */
function folderOf(rooms: readonly Room[], path: string): string {
  const { name = '' } = rooms[roomOf(rooms, path)] ?? {};
  const [folder = '', ...below] = relative(name, path).split('/');
  return below.length === 0 ? name : join(name, folder);
}

/** Returns the folders directly below rooms, with those of the same room that their files import. */
function foldersOf(
  rooms: readonly Room[],
  imports: ReadonlyMap<string, readonly string[]>,
): Map<string, string[]> {
  const roots = rooms.map(({ name }) => name);
  const graph = new Map<string, string[]>();
  for (const [path, targets] of imports) {
    const folder = folderOf(rooms, path);
    const others = targets
      .filter(target => roomOf(rooms, target) === roomOf(rooms, path))
      .map(target => folderOf(rooms, target))
      .filter(other => other !== folder && !roots.includes(other));
    if (!roots.includes(folder)) graph.set(folder, [...(graph.get(folder) ?? []), ...others]);
  }
  return graph;
}

test('the folders of a room do not import each other in a circle', () => {
  // The door of a folder may pass on names of others.
  const paths = globSync('**/*.ts', { cwd: src, exclude: ['**/index.ts'] });
  const imports = new Map(paths.map(path => [path, importedFiles(path)] as const));
  const graph = foldersOf(readRooms(), imports);
  assert.ok(graph.size > 50);
  assert.deepEqual(circleIn(graph), []);
  imports.set('upstream/wire/one.ts', ['upstream/transport/transport.ts']);
  const found = circleIn(foldersOf(readRooms(), imports));
  assert.deepEqual(new Set(found), new Set(['upstream/wire', 'upstream/transport']));
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
  // An index.ts is the door of its folder.
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
