import assert from 'node:assert/strict';
import { symlink, unlink, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { hash as bcrypt } from '@node-rs/bcrypt';
import { pino } from 'pino';
import { mostFileBytes, openAccountFiles } from '../../src/hosted/accounts/account-files.ts';
import type { Account } from '../../src/hosted/accounts/accounts.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const hash = await bcrypt('x', 4);

async function open(texts: readonly string[], listed: Record<string, Account> = {}) {
  const directory = await makeTempDir('account-files');
  const paths = texts.map((_, at) => directory.join(`file-${at}`));
  for (const [at, text] of texts.entries()) await writeFile(paths[at] as string, text);
  const lines: { level: number; reason?: string }[] = [];
  const log = pino({ base: null }, { write: line => void lines.push(JSON.parse(line)) });
  const changes: string[] = [];
  const start = () =>
    openAccountFiles({
      listed: new Map(Object.entries(listed)),
      files: paths.map(file => ({ file, administrators: ['root'], repositories: { a: 'pull' } })),
      log,
      onChange: all => changes.push(...all.map(({ action, name }) => `${action} ${name}`)),
    });
  const reasons = () => lines.flatMap(({ level, reason }) => (level >= 50 ? [reason] : []));
  return { directory, path: paths[0] as string, start, changes, reasons };
}

test('accounts in a file are administrators only if the configuration names them', async () => {
  const at = await open([`ada:${hash}\nroot:${hash}\r\n`]);
  await using _directory = at.directory;
  const { accounts } = at.start();
  assert.deepEqual(accounts.get('ada')?.repositories, { a: 'pull' });
  assert.equal(accounts.get('root')?.repositories, undefined);
});

test('a changed file is read when two consecutive checks see the same file', async () => {
  const at = await open([`ada:${hash}`], { admin: { password: 'x' } });
  await using _directory = at.directory;
  const files = at.start();
  const { accounts } = files;
  await files.look();
  // As htpasswd writes: into the file, which is empty for a moment.
  await writeFile(at.path, '');
  await files.look();
  await writeFile(at.path, `ada:${hash}\nbob:${hash}`);
  await files.look();
  assert.deepEqual([...accounts.keys()], ['admin', 'ada']);
  await files.look();
  assert.deepEqual([...accounts.keys()], ['admin', 'ada', 'bob']);
  assert.deepEqual(at.changes, ['account.add bob']);
  // As Kubernetes does: a link gets another target.
  await writeFile(at.directory.join('other'), `bob:${hash}`);
  await unlink(at.path);
  await symlink('other', at.path);
  await files.look();
  await files.look();
  assert.deepEqual([...accounts.keys()], ['admin', 'bob']);
  assert.equal(accounts, files.accounts);
});

test('an unusable file is reported once, and changes nothing', async () => {
  const at = await open([`ada:${hash}`, `bob:${hash}`], { admin: { password: 'x' } });
  await using _directory = at.directory;
  const files = at.start();
  for (const [text, reason] of [
    [`ada:${hash}\neve`, /line 2: expected name:hash/],
    [`eve:${hash}\nbob:${hash}`, /'bob' is also listed elsewhere/],
    [`admin:${hash}`, /'admin' is also listed elsewhere/],
    [`ada:${hash.slice(0, -1)}`, /line 1: the format of the password hash/],
    ['#'.repeat(mostFileBytes + 1), /larger than/],
    [Array.from({ length: 10_001 }, (_, n) => `a${n}:${hash}`).join('\n'), /more than 10000/],
    [undefined, /does not exist/],
  ] as const) {
    const before = at.reasons().length;
    if (text === undefined) await unlink(at.path);
    else await writeFile(at.path, text);
    for (let looks = 0; looks < 4; looks += 1) await files.look();
    const [found, ...more] = at.reasons().slice(before);
    assert.match(found ?? '', reason);
    assert.deepEqual(more, [], 'once');
    assert.deepEqual([...files.accounts.keys()], ['admin', 'ada', 'bob']);
  }
  await writeFile(at.path, `eve:${hash}`);
  for (let looks = 0; looks < 2; looks += 1) await files.look();
  assert.deepEqual([...files.accounts.keys()], ['admin', 'bob', 'eve']);
});
