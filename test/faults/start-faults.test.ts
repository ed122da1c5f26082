/** What the operator of a server that cannot start reads: one line, with what to do and without a stack. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { startFaultOf } from '../../src/server/life/start-fault.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';

/** Returns the only error in the log of a server that ends. */
async function failedStart(environment: Readonly<Record<string, string>>): Promise<string> {
  const variables = { SLUICE_BUILDKIT: 'off', SLUICE_LISTEN: '127.0.0.1:0', ...environment };
  const { code, stdout, stderr } = await sluiceCommand(['serve'], variables);
  assert.equal(code, 1, stdout + stderr);
  const lines = stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  const [only, ...others] = lines.filter(({ level }) => level === 'error' || level === 'fatal');
  assert.deepEqual(others, []);
  assert.deepEqual([only.level, only.err.stack], ['error', undefined], stdout);
  return only.err.message;
}

test('a server that cannot start says what to do', async () => {
  await using directory = await makeTempDir('start-faults');
  const at = (name: string) => directory.join(name);
  await writeFile(at('sluice.db'), Buffer.alloc(20_000, 'no database '));
  await writeFile(at('file'), '');
  const address = { SLUICE_DATA: at('other'), SLUICE_LISTEN: '203.0.113.9:9000' };
  const [damaged, file, elsewhere] = await Promise.all([
    failedStart({ SLUICE_DATA: directory.path }),
    failedStart({ SLUICE_DATA: at('file') }),
    failedStart(address),
  ]);
  assert.match(damaged, /sluice\.db .* is damaged .*: restore a backup/);
  assert.match(file, /a file has the place .* SLUICE_DATA/);
  assert.match(elsewhere, /give this machine that address, or set another .* SLUICE_LISTEN/);
});

// Root may write everything: errors as another user gets them.
test('errors of the disk and of rights say what to do, and defects stay what they are', () => {
  const messageOf = (code: string) => {
    const error = Object.assign(new Error(code), { code, path: '/data/server.lock' });
    const fault = startFaultOf(error, '/data');
    assert.ok(fault instanceof Fault, code);
    return fault.message;
  };
  assert.match(messageOf('EACCES'), /\d+:\d+, may not use \/data\/server.lock .* owner of \/data/);
  assert.match(messageOf('EROFS'), /read-only .* mount \/data for writing/);
  assert.match(messageOf('SQLITE_READONLY_DIRECTORY'), /read-only/);
  assert.match(messageOf('SQLITE_CANTOPEN'), /may not use/);
  assert.match(messageOf('SQLITE_IOERR_READ'), /cannot be read or written/);
  assert.match(messageOf('ENOSPC'), /is full .* free space/);
  const defect = new TypeError('x is not a function');
  assert.equal(startFaultOf(defect, '/data'), defect);
});
