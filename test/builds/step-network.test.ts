/** The CNI plugin for the network of a build step, with a failing `ip` program. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { makeTempDir } from '../world/temp-dir.ts';

const plugin = fileURLToPath(new URL('../../src/builds/builder/contained/cni.sh', import.meta.url));

/** Runs the plugin; `ip` runs this script, and `calls` has a line for each run. */
async function addNetwork(ip: string) {
  await using directory = await makeTempDir('cni');
  const script = `#!/bin/sh\necho "$*" >> ${directory.join('calls')}\n${ip}\n`;
  await writeFile(directory.join('ip'), script, { mode: 0o755 });
  await writeFile(directory.join('nsenter'), '#!/bin/sh\ncat > /dev/null\n', { mode: 0o755 });
  const child = spawn(plugin, {
    env: {
      PATH: `${directory.path}:${process.env.PATH}:/usr/sbin:/sbin`,
      SLUICE_FOLDER: directory.path,
      CNI_COMMAND: 'ADD',
      CNI_NETNS: '/proc/self/ns/net',
      CNI_IFNAME: 'eth0',
    },
    timeout: 20_000,
  });
  child.stdin.end('{"cniVersion":"0.4.0","name":"sluice","type":"sluice"}\n');
  const [response, errors] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  const calls = readFileSync(directory.join('calls'), 'utf8').trim().split('\n');
  return { code: child.exitCode, response, errors, calls };
}

test('existing interfaces are skipped', async () => {
  const { code, response } = await addNetwork(
    `case $* in 'link add step'[12]' '*) echo 'RTNETLINK answers: File exists' >&2; exit 2 ;; esac`,
  );
  assert.equal(code, 0);
  assert.equal(JSON.parse(response).ips[0].address, '198.19.0.4/32');
});

test('a machine that cannot create the interfaces fails at once, with the reason', async () => {
  const failed = await addNetwork(`echo 'Error: Unknown device type.' >&2; exit 2`);
  assert.equal(failed.code, 1);
  assert.match(failed.errors, /network of a step cannot be made: Error: Unknown device type/);
  assert.equal(failed.calls.length, 1);
});

test('the search for a free interface is bounded', async () => {
  const failed = await addNetwork(`echo 'RTNETLINK answers: File exists' >&2; exit 2`);
  assert.equal(failed.code, 1);
  assert.equal(failed.calls.length, 1000);
});
