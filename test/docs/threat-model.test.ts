/** Each promise of docs/threat-model.md has a test that holds it, by its file and its name. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const project = join(import.meta.dirname, '../..');
const text = readFileSync(join(project, 'docs/threat-model.md'), 'utf8');
const readTest = (file: string) => readFileSync(join(project, 'test', file), 'utf8');

interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** Tables without promises, by their first column. */
const otherTables = ['who', 'builder', 'role', 'resource', 'setting'];

function tablesIn(markdown: string): Table[] {
  const cellsOf = (line: string) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map(cell => cell.trim());
  return markdown
    .split(/\n(?!\|)/)
    .map(part => part.split('\n').filter(line => line.startsWith('|')))
    .filter(lines => lines.length > 0)
    .map(([head = '', , ...rows]) => ({ columns: cellsOf(head), rows: rows.map(cellsOf) }));
}

const nameCall = /\b(?:test|suite|describe)\(\s*(?:'((?:[^'\\]|\\.)*)'|"([^"]*)"|`([^`]*)`)/g;

/** Returns the names of the tests in a file. A part that differs between tests is an ellipsis. */
function namesIn(source: string): string[] {
  return [...source.matchAll(nameCall)].map(([, single, double, template = '']) =>
    (single ?? double ?? template.replaceAll(/\$\{[^}]*\}/g, '…')).replaceAll("\\'", "'"),
  );
}

/** Returns what is wrong with a cell that names tests: file and name, in lines. */
function faultsIn(cell: string, read: (file: string) => string): string[] {
  return cell.split('<br>').flatMap(line => {
    const [, file, name] = /^`([^`]+\.ts)`: (.+)$/.exec(line.trim()) ?? [];
    if (file === undefined || name === undefined) return [`no file and name of a test: '${line}'`];
    if (!existsSync(join(project, 'test', file))) return [`test/${file} does not exist`];
    return namesIn(read(file)).includes(name) ? [] : [`test/${file} has no test '${name}'`];
  });
}

const tables = tablesIn(text);
const promises = tables.filter(({ columns }) => columns[0] === 'promise');

test('every promise names tests that exist', () => {
  assert.ok(promises.length > 5);
  for (const { columns, rows } of promises) {
    assert.equal(columns.at(-1), 'test');
    for (const row of rows) {
      assert.equal(row.length, columns.length, row[0]);
      assert.deepEqual(faultsIn(row.at(-1) ?? '', readTest), [], row[0]);
    }
  }
});

test('every other table is known to have no promises', () => {
  for (const { columns } of tables) {
    if (columns[0] !== 'promise') assert.ok(otherTables.includes(columns[0] ?? ''), columns[0]);
  }
});

test('the files that keep the promises exist', () => {
  const named = [...text.matchAll(/`([\w.-]+(?:\/[\w.-]+)*\/(?:[\w.-]+\.(?:ts|sh|yaml|toml))?)`/g)];
  for (const [, path = ''] of named) {
    const places = ['src', 'test', ''].map(place => join(project, place, path));
    assert.ok(places.some(existsSync), path);
  }
});

test('a test that is renamed or removed, and a promise without a test, are found', () => {
  const [row = []] = promises[0]?.rows ?? [];
  const cell = row.at(-1) ?? '';
  const [, name = ''] = /: ([^<]+)/.exec(cell) ?? [];
  assert.notEqual(name, '');
  const renamed = faultsIn(cell, file => readTest(file).replaceAll(name, `${name} more`));
  assert.notDeepEqual(renamed, []);
  assert.notDeepEqual(faultsIn('', readTest), []);
  assert.notDeepEqual(faultsIn('`http/none.test.ts`: a name', readTest), []);
  assert.notDeepEqual(faultsIn('`http/access.test.ts`', readTest), []);
});
