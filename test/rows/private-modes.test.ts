import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pattern } from '../faults/scripted-upstream.ts';
import { administered, Repository } from '../hosted/push-client.ts';
import { startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);

test('the state is readable for its owner only, whatever its modes were before', async () => {
  await using directory = await makeTempDir('modes');
  const data = directory.join('data');
  await mkdir(join(data, 'content'), { recursive: true, mode: 0o777 });
  await chmod(data, 0o777);
  await chmod(join(data, 'content'), 0o777);
  for (const name of ['registry-token.key', 'secrets.key']) {
    await writeFile(join(data, name), Buffer.alloc(32, name), { mode: 0o644 });
  }
  await using sluice = await startSluice({ data, config: administered });
  await new Repository(sluice, 'team/app').pushImage('1', [pattern(1000, 'modes')]);
  assert.equal(await modeOf(data), '700');
  for (const entry of await readdir(data, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    const mode = await modeOf(path).catch(() => undefined);
    if (mode === undefined) continue;
    assert.match(mode, entry.isDirectory() ? /^700$/ : /^[46]00$/, `${path} has ${mode}`);
  }
});
