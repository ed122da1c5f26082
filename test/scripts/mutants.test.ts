// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are code
/** The mutants of `npm run mutants`, and the table of the modules that have them. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createVirtualFileSystem } from 'typescript/unstable/fs';
import { API } from 'typescript/unstable/sync';
import { heldModules } from '../../scripts/mutants/held-modules.ts';
import { mutantsOf } from '../../scripts/mutants/mutants-of.ts';

const root = join(import.meta.dirname, '../..');

test('the table names modules and tests that exist, each module once', () => {
  const files = heldModules.map(({ file }) => file);
  assert.equal(new Set(files).size, files.length);
  for (const { file, tests } of heldModules) {
    assert.ok(tests.length > 0, file);
    for (const path of [file, ...tests]) assert.ok(existsSync(join(root, path)), path);
  }
});

/** Returns the changes of a module of this text. */
function changesOf(text: string): string[] {
  const config = '/project/tsconfig.json';
  const settings = '{ "compilerOptions": { "noLib": true, "types": [] } }';
  const fs = createVirtualFileSystem({ [config]: settings, '/project/module.ts': text });
  const compiler = new API({ cwd: '/project', fs });
  try {
    const snapshot = compiler.updateSnapshot({ openProjects: [config] });
    const source = snapshot.getProject(config)?.program.getSourceFile('/project/module.ts');
    assert.ok(source);
    return mutantsOf(source).map(({ change, line, constant, text: mutant }) => {
      assert.notEqual(mutant, text);
      return `${line}${constant ? ` ${constant}` : ''}: ${change}`;
    });
  } finally {
    compiler.close();
  }
}

test('conditions, limits, parts of keys, defaults and actions are changed; types and messages are not', () => {
  const text = `import { x } from 'x';
const limit = 5;
interface Not { readonly here: 'a text' }
export function decide(list: string[], { a = 1 }: { a?: number }, b?: string): unknown {
  if (list.some(one => one !== b)) throw new Fault('denied', 'A text for people');
  list.push(\`key \${a}\`);
  return { a, ...(b ? [b] : []), c: b ?? 'x', d: a <= limit && !b };
}
`;
  assert.deepEqual(changesOf(text), [
    '2 limit: limit = 5: 5 -> 6',
    '2 limit: limit = 5: 5 -> 4',
    '4: a = 1 -> a',
    '4: a = 1: 1 -> 2',
    '4: a = 1: 1 -> 0',
    '5: list.some(one => one !== b) -> true',
    '5: list.some(one => one !== b) -> false',
    '5: list.some(one => one !== b): some -> every',
    '5: one !== b -> one === b',
    "5: throw new Fault('denied', 'A text for people'); -> ;",
    "5: 'denied' -> ''",
    '6: list.push(`key ${a}`); -> ;',
    "6: ${a} in `key ${a}` -> ''",
    "7: return { a, ...(b ? [b] : []), c: b ?? 'x', d: a <= limit && !b }; -> return undefined;",
    '7: a -> (nothing)',
    '7: ...(b ? [b] : []) -> (nothing)',
    '7: b -> true',
    '7: b -> false',
    '7: b -> (nothing)',
    "7: c: b ?? 'x' -> (nothing)",
    "7: b ?? 'x' -> b",
    "7: b ?? 'x' -> ('x')",
    "7: b ?? 'x': 'x' -> ''",
    '7: d: a <= limit && !b -> (nothing)',
    '7: a <= limit && !b -> a <= limit || !b',
    '7: a <= limit -> a < limit',
    '7: a <= limit -> a > limit',
    '7: !b -> (nothing)',
  ]);
});
