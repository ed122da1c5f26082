/** The unit for systemd: what systemd itself says of it, and that its settings exist. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { assertSuccess } from '../integration/served.ts';
import { runProgram } from '../world/program.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

const users = 'deploy/systemd/sluice.sysusers';
const unit = readFileSync('deploy/systemd/sluice.service', 'utf8');

test('systemd accepts the unit, and finds little that it may do', async () => {
  await using directory = await makeTempDir('unit');
  const path = directory.join('sluice.service');
  // Sluice is not installed where the tests run.
  await writeFile(path, unit.replace(/^ExecStart=\S+/m, 'ExecStart=/bin/true'));
  const analyze = (...args: string[]) =>
    runProgram([requireCommand('systemd-analyze'), ...args, path], {
      cwd: directory.path,
      env: {},
    });
  const { code, stderr } = await analyze('verify');
  assert.deepEqual([code, stderr], [0, '']);
  // From 0 (the least) to 100.
  assertSuccess(await analyze('security', '--offline=true', '--threshold=20'));
});

test('the user of the unit exists before the server, and commands can have it too', async () => {
  const [, user] = /^User=(\S+)$/m.exec(unit) ?? [];
  assert.doesNotMatch(unit, /^DynamicUser=/m);
  await using directory = await makeTempDir('sysusers');
  await mkdir(directory.join('etc'));
  assertSuccess(
    await runProgram(
      [requireCommand('systemd-sysusers'), `--root=${directory.path}`, resolve(users)],
      { cwd: directory.path, env: {} },
    ),
  );
  const made = await readFile(directory.join('etc/passwd'), 'utf8');
  assert.match(made, new RegExp(`^${user}:.*:/var/lib/sluice:/usr/sbin/nologin$`, 'm'));
  // What DynamicUser= would imply.
  for (const line of [
    ...['NoNewPrivileges=yes', 'PrivateTmp=yes', 'ProtectHome=yes', 'ProtectSystem=strict'],
    ...['RemoveIPC=yes', 'RestrictSUIDSGID=yes'],
  ]) {
    assert.ok(unit.includes(`\n${line}\n`), line);
  }
});

test('the unit leaves the builders to the configuration file', () => {
  assert.doesNotMatch(unit, /^Environment=.*SLUICE_BUILDKIT/m);
});

test('the unit stops no earlier than the server, and its settings exist', () => {
  const settings = readFileSync('docs/configuration.md', 'utf8');
  for (const [name] of unit.matchAll(/SLUICE_[A-Z_]+/g)) assert.ok(settings.includes(name), name);
  const seconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]);
  const grace = Number(/stop_grace_period: (\d+)s/.exec(readFileSync('compose.yaml', 'utf8'))?.[1]);
  assert.ok(seconds >= grace, `${seconds} ${grace}`);
});
