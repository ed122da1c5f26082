/** `sluice open` on a real terminal and in a script. */
import assert from 'node:assert/strict';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { eventually } from '../world/eventually.ts';
import { sluiceCommand, sluiceProgram } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { openTerminal } from '../world/terminal.ts';

const server = { SLUICE_SERVER: 'http://127.0.0.1:9' };
const id = `${'0123456789abcdef'.repeat(2)}_7`;

test('open prints the address of a page, and starts no browser for a script', async () => {
  for (const [args, path] of [
    [[], '/'],
    [[id], `/view/builds/${id}`],
    [['alpine:3.20'], '/view/inspect?image=alpine%3A3.20'],
    [['../$(x) y'], '/view/inspect?image=..%2F%24%28x%29+y'],
  ] as const) {
    const { code, stdout, stderr } = await sluiceCommand(['open', ...args], server);
    assert.deepEqual([code, stdout, stderr], [0, `${server.SLUICE_SERVER}${path}\n`, '']);
  }
  for (const args of [
    ['a', 'b'],
    ['--server', 'file:///etc'],
  ]) {
    assert.equal((await sluiceCommand(['open', ...args], server)).code, 2);
  }
});

test('open starts the browser of the desktop from a terminal, and says when there is none', async () => {
  await using directory = await makeTempDir('open');
  const shown = directory.join('shown');
  const command = [process.execPath, sluiceProgram, 'open', id];
  const env = { ...server, PATH: `${directory.path}:/usr/bin:/bin` };
  await writeFile(directory.join('xdg-open'), `#!/bin/sh\nprintf %s "$*" > ${shown}\n`);
  await chmod(directory.join('xdg-open'), 0o755);
  assert.equal(await openTerminal(command, env).exitCode, 0);
  const expected = `${server.SLUICE_SERVER}/view/builds/${id}`;
  await eventually('the browser is started', async () => {
    return (await readFile(shown, 'utf8').catch(() => '')) === expected;
  });
  const without = openTerminal(command, { ...server, PATH: directory.join('none') });
  assert.equal(await without.exitCode, 0);
  assert.match(without.output(), /Cannot start xdg-open: open the address yourself/);
});
