/** The key of the secrets is changed: all secrets can be opened, even after an interruption. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';
import { credentialsPlace } from '../../src/platform/seal-again.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createCredentialStore } from '../../src/storage/rows/people/credential-rows.ts';
import { openSecretBox } from '../../src/storage/rows/secret-box.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const run = promisify(execFile);
const owner = { kind: 'user', id: 1 } as const;

const start = (data: string) =>
  spawn(process.execPath, ['bin/sluice.js', 'rotate-key', '--data', data], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });

async function rotate(data: string, ...args: string[]): Promise<{ code: number; text: string }> {
  const command = ['bin/sluice.js', 'rotate-key', '--data', data, ...args];
  try {
    const { stdout, stderr } = await run(process.execPath, command);
    return { code: 0, text: stdout + stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, text: stdout + stderr };
  }
}

/** Opens all secrets of credentials; returns how many begin with the prefix of the newest key. */
async function openAll(data: string): Promise<{ count: number; renewed: number }> {
  const database = openDatabase(join(data, 'sluice.db'));
  try {
    const box = openSecretBox(data);
    const limit = 1_000_000;
    const store = createCredentialStore(database);
    const { entries } = await store.list(undefined, { limit, offset: 0 });
    let renewed = 0;
    for (const { id, owner: whose } of entries) {
      const { sealed = '' } = (await store.find(id)) ?? {};
      assert.notEqual(box.open(sealed, credentialsPlace(id, whose)), '');
      if (sealed.startsWith(box.prefix)) renewed += 1;
    }
    return { count: entries.length, renewed };
  } finally {
    database.close();
  }
}

async function addCredentials(data: string, count: number, name = 'many'): Promise<void> {
  const database = openDatabase(join(data, 'sluice.db'));
  const box = openSecretBox(data);
  const store = createCredentialStore(database);
  const added: Promise<unknown>[] = [];
  for (let at = 0; at < count; at += 1) {
    const id = `${name}-${at}`;
    const sealed = box.seal(`secret ${at}`, credentialsPlace(id, owner));
    const others = { description: null, provider: 'container-reg', shown: '{}', createdAt: 1 };
    added.push(store.insert({ id, owner, name: id, sealed, ...others }, Number.POSITIVE_INFINITY));
    if (added.length === 5000) await Promise.all(added.splice(0));
  }
  await Promise.all(added);
  database.close();
}

async function ask(sluice: Sluice, token: string, body: object): Promise<void> {
  const response = await sluice.fetch('/v1alpha2/container', {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200, await response.text());
}

suite('a new key', () => {
  test('opens all secrets; the old key is removed when no container request requires it', async () => {
    await using registry = await startRegistry();
    await using directory = await makeTempDir('rotate');
    const data = directory.join('data');
    const config = {
      accounts: { admin: 'secret' },
      registries: { [registry.host]: { plainHttp: true } },
    };
    const file = (name: string) => readFileSync(join(data, name));
    {
      await using sluice = await startSluice({ data, config });
      const admin = { name: 'admin', password: 'secret' };
      const token = await newAccessToken(sluice, admin, 'ada@example.org');
      await addCredentials(data, 50);
      const [image] = (await pushCorpus(registry, ['busybox:oci'])).values();
      await ask(sluice, token, { containerImage: image?.reference });
    }
    const old = file('secrets.key');
    const first = await rotate(data);
    assert.equal(first.code, 0, first.text);
    assert.match(first.text, /Encrypted 50 secrets with the new key/);
    assert.match(first.text, /1 container requests require the previous key until 20/);
    assert.deepEqual(file('secrets.key.previous'), old);
    assert.notDeepEqual(file('secrets.key'), old);
    assert.deepEqual(await openAll(data), { count: 50, renewed: 50 });

    const backup = directory.join('backup');
    const backUp = ['bin/sluice.js', 'backup', backup, '--data', data, '--with-secrets-key'];
    await run(process.execPath, backUp);
    assert.deepEqual(readFileSync(join(backup, 'secrets.key.previous')), old);

    const early = await rotate(data, '--remove-previous');
    assert.equal(early.code, 1);
    assert.match(early.text, /The previous key was not removed: 1 container requests require it/);
    assert.deepEqual(file('secrets.key.previous'), old);
    const again = await rotate(data);
    assert.match(again.text, /An earlier run made the new key/);
    assert.match(again.text, /Encrypted 0 secrets/);
    assert.deepEqual(file('secrets.key.previous'), old, 'no third key');
    {
      await using _sluice = await startSluice({ data, config });
      await addCredentials(data, 10, 'more');
      // It waits for the server to stop.
      const child = start(data);
      let text = '';
      for await (const chunk of child.stderr) {
        text += chunk;
        if (text.includes('A server uses the data directory')) break;
      }
      assert.match(text, /A server uses the data directory/);
      assert.equal((await openAll(data)).renewed, 60);
      child.kill('SIGKILL');
    }
    const database = openDatabase(join(data, 'sluice.db'));
    database.prepare('UPDATE requests SET expires_at = 1').run();
    database.close();
    const late = await rotate(data, '--remove-previous');
    assert.equal(late.code, 0, late.text);
    assert.match(late.text, /Removed secrets.key.previous/);
    assert.ok(!existsSync(join(data, 'secrets.key.previous')));
    assert.deepEqual(await openAll(data), { count: 60, renewed: 60 });
    await run(process.execPath, backUp);
    assert.ok(!existsSync(join(backup, 'secrets.key.previous')));
    assert.deepEqual(readFileSync(join(backup, 'secrets.key')), file('secrets.key'));
    const { stdout } = await run(process.execPath, ['bin/sluice.js', 'audit', '--data', data]);
    assert.match(stdout, /key\.remove/);
    assert.match(stdout, /key\.rotate/);
  });

  test('can be interrupted at any moment', async () => {
    await using directory = await makeTempDir('rotate');
    const data = directory.join('data');
    const path = (name: string) => join(data, name);
    {
      await using sluice = await startSluice({ data, config: { accounts: { admin: 'secret' } } });
      await newAccessToken(sluice, { name: 'admin', password: 'secret' }, 'ada@example.org');
    }
    const count = 15_000;
    await addCredentials(data, count);
    // Between the copy of the old key and the new key.
    copyFileSync(path('secrets.key'), path('secrets.key.previous'));
    writeFileSync(path('secrets.key.next'), 'half');
    assert.deepEqual(await openAll(data), { count, renewed: count });

    const child = start(data);
    const ended = new Promise(resolve => child.once('close', resolve));
    const database = openDatabase(path('sluice.db'));
    const first = database.prepare('SELECT sealed FROM credentials ORDER BY id LIMIT 1').pluck();
    const before = first.get();
    while (first.get() === before && child.exitCode === null) {
      await new Promise(resolve => setTimeout(resolve, 2));
    }
    child.kill('SIGKILL');
    await ended;
    database.close();
    const { renewed } = await openAll(data);
    assert.ok(renewed > 0 && renewed < count, `${renewed} of ${count} when it was killed`);

    const again = await rotate(data);
    assert.equal(again.code, 0, again.text);
    assert.match(again.text, new RegExp(`Encrypted ${count - renewed} secrets`));
    assert.match(again.text, /Nothing requires the previous key/);
    assert.deepEqual(await openAll(data), { count, renewed: count });
    assert.equal((await rotate(data, '--remove-previous')).code, 0);
    assert.deepEqual(await openAll(data), { count, renewed: count });
    const none = await rotate(data, '--remove-previous');
    assert.equal(none.code, 1);
    assert.match(none.text, /contains no previous key/);
  });
});
